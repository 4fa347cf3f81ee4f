#include "tuner/measure.h"

#include <algorithm>
#include <cmath>

namespace headnorm {
namespace {

constexpr std::int64_t kTrialBytes = 256 * 1024;
constexpr std::int64_t kMostLaunches = 16;
constexpr std::int64_t kUnknownCacheBytes = 64 << 20;

}  // namespace

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double place = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

TimeStatistics summarise(const std::vector<double>& times_us) {
  return {quantile(times_us, 0.5), quantile(times_us, 0.2), quantile(times_us, 0.8), static_cast<int>(times_us.size())};
}

int launches_per_trial(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>(kTrialBytes / std::max<std::int64_t>(bytes, 1), 1, kMostLaunches));
}

int choose_sets(const KernelSpec& spec, const DeviceInfo& device, const WorkloadShape& shape, CachePolicy policy) {
  const Traffic traffic = minimum_traffic(spec);
  const int launches = launches_per_trial(traffic.total_bytes(shape.rows));
  if (policy == CachePolicy::warm) return spec.residual == Residual::inplace ? launches : 1;
  const std::int64_t cache = device.cache_bytes > 0 ? device.cache_bytes : kUnknownCacheBytes;
  const std::int64_t touched = std::max<std::int64_t>(1, traffic.total_bytes(shape.rows));
  const std::int64_t wanted = std::max<std::int64_t>(launches, 2 * cache / touched + 1);
  const std::int64_t room = device.memory_bytes > 0 ? std::min(kMostOperandBytes, device.memory_bytes / 4) : kMostOperandBytes;
  const std::int64_t most = std::max<std::int64_t>(1, room / Workload::set_bytes(spec, shape));
  return static_cast<int>(std::min(wanted, most));
}

Result<double> Trials::time_launch(const LoadedKernel& kernel, int set) {
  const LaunchArguments arguments = workload_->arguments(set);
  if (policy_ == CachePolicy::warm) {
    HEADNORM_CHECK(device_->measure_us(kernel, arguments));
    HEADNORM_CHECK(workload_->restore(set));
  }
  return device_->measure_us(kernel, arguments);
}

Result<Trials::Outcome> Trials::run(const LoadedKernel& kernel) {
  const int sets = workload_->shape().sets;
  const int launches = launches_per_trial(minimum_traffic(kernel.plan().spec).total_bytes(workload_->shape().rows));
  Outcome outcome;
  std::vector<double> times;
  for (int i = 0; i < launches && !outcome.rejection; ++i) {
    const int set = next_set_;
    next_set_ = (next_set_ + 1) % sets;
    const Result<double> time = time_launch(kernel, set);
    if (time.ok()) {
      times.push_back(*time);
      HEADNORM_TRY(outcome.rejection, verifier_->check(kernel.plan(), *workload_, set));
    } else {
      outcome.rejection = Rejection{"launch", time.error().message};
    }
    HEADNORM_CHECK(outcome.rejection ? workload_->repair(set) : workload_->restore(set));
  }
  if (!times.empty()) outcome.time_us = quantile(times, 0.5);
  return outcome;
}

}  // namespace headnorm
