// Calibration: fits the figures of a GPU model that no data sheet gives to measured times, and says how well the model then ranks.
#pragma once

#include <string>
#include <vector>

#include "tuner/cost_model/prediction.h"

namespace headnorm {

struct MeasuredTime {
  Plan plan;
  std::int64_t rows = 0;
  double time_us = 0;  // above 0
};

// How predictions compare with measured times.
struct Fit {
  double error = 0;  // root of the mean square of log(predicted / measured): 0.1 is about 10 %
  double spearman = 0, kendall = 0;
  // The same within each spec and row count, where schedules compete; the mean over those with at least three of them.
  double spearman_within = 0, kendall_within = 0;
  int groups = 0;  // so many had three
};
Fit evaluate_fit(const GpuModel& model, const std::vector<MeasuredTime>& times);

// What is fitted.
inline constexpr Figure kFittedFigures[] = {Figure::memory_efficiency, Figure::memory_latency_ns, Figure::l2_latency_ns,
                                            Figure::l2_gb_per_s,       Figure::issue_per_cycle,   Figure::launch_us};

struct Calibration {
  GpuModel model;  // fitted figures have confidence `calibrated` and `source`
  Fit before, after;
};

// Least squares of the logarithms, from the model's own figures; a figure that the times say nothing of stays near its value.
// `source` says where the times come from. Error (user): fewer than kFewestTimes, or a plan for another target or one that does not
// fit the device.
inline constexpr std::size_t kFewestTimes = 12;
Result<Calibration> calibrate(const GpuModel& model, const std::vector<MeasuredTime>& times, const std::string& source);

}  // namespace headnorm
