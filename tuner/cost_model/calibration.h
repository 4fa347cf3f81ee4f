// Calibration: fits the figures of a GPU model that no data sheet gives to measured times, and says how well the model then ranks.
#pragma once

#include <array>
#include <iterator>
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

// What the times say of a figure.
inline constexpr double kMostUncertainty = 0.2;
struct FigureFit {
  Figure figure{};
  double sensitivity = 0;  // the most that a predicted time changes with it: 1 is in proportion, 0 not at all
  // A share of the figure, as far as the scatter of the times and the other figures leave it open: 0.1 is 10 %.
  double uncertainty = 0;
  bool is_determined() const { return uncertainty <= kMostUncertainty; }
};

struct Calibration {
  GpuModel model;  // figures that are determined have confidence `calibrated` and `source`; the others stay as they were
  Fit before, after;
  std::array<FigureFit, std::size(kFittedFigures)> figures;  // in the order of kFittedFigures
};

// Least squares of the logarithms, from the model's own figures. A figure that the times do not determine, because no time depends
// on it or because others do as well in its place, is left out, the least determined first, and the rest is fitted without it.
// `source` says where the times come from. Error (user): fewer than kFewestTimes, or a plan for another target or one that does not
// fit the device.
inline constexpr std::size_t kFewestTimes = 12;
Result<Calibration> calibrate(const GpuModel& model, const std::vector<MeasuredTime>& times, const std::string& source);

}  // namespace headnorm
