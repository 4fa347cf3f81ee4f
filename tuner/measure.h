// Measuring: statistics of repeated timings, and trials that rotate over the operand sets of a workload.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/database/record.h"
#include "tuner/verification.h"

namespace headnorm {

// Linear interpolation between order statistics; `values` is not empty, fraction in [0, 1].
double quantile(std::vector<double> values, double fraction);
TimeStatistics summarise(const std::vector<double>& times_us);

// Of the winner of a search, whatever its budget: a median and percentiles of fewer say little.
inline constexpr int kFewestSamples = 5;

// A plain copy on the device that a kernel is timed on, to pair timings with: a machine that slows down slows both.
class CopyReference {
 public:
  virtual ~CopyReference() = default;
  // Time of reading bytes/2 and writing bytes/2, in microseconds.
  virtual Result<double> measure_us(std::int64_t bytes) = 0;
};

// Sets that hold more than twice the last level cache together, as far as kMostOperandBytes and a quarter of the
// device's memory allow. Warm measurements have one set,
// or in place, where a launch uses its inputs up, one for each launch of a trial.
inline constexpr std::int64_t kMostOperandBytes = std::int64_t{1} << 30;
int choose_sets(const KernelSpec& spec, const DeviceInfo& device, const WorkloadShape& shape, CachePolicy policy);

// Launches that one trial times, so that short kernels are not lost in the clock's grain.
int launches_per_trial(std::int64_t bytes);

// The full launch: takes times, and checks the result of every one of them.
class Trials {
 public:
  Trials(Device& device, Workload& workload, Verifier& verifier, CachePolicy policy)
      : device_(&device), workload_(&workload), verifier_(&verifier), policy_(policy) {}

  struct Outcome {
    double time_us = 0;
    std::optional<Rejection> rejection;
  };
  // One trial. Error: the device fails other than in the launch.
  Result<Outcome> run(const LoadedKernel& kernel);

 private:
  Result<double> time_launch(const LoadedKernel& kernel, int set);

  Device* device_;
  Workload* workload_;
  Verifier* verifier_;
  CachePolicy policy_;
  int next_set_ = 0;
};

}  // namespace headnorm
