#include "tuner/device_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace headnorm {
namespace {

constexpr std::int64_t kLine = 256;  // as allocations are aligned
constexpr std::int64_t kUnknownCacheBytes = 64 << 20;

std::int64_t half_of(std::int64_t bytes) { return std::max(kLine, bytes / 2 / kLine * kLine); }

class DeviceCopy final : public CopyReference {
 public:
  DeviceCopy(Device& device, CachePolicy policy, Buffer source, Buffer destination)
      : device_(&device), policy_(policy), source_(std::move(source)), destination_(std::move(destination)) {}

  Result<double> measure_us(std::int64_t bytes) override {
    const std::int64_t half = half_of(bytes);
    if (half > static_cast<std::int64_t>(source_.bytes()))
      return internal_error(fmt::format("a copy of {} bytes exceeds its buffers", bytes));
    std::vector<double> times_us;
    for (int i = 0; i < launches_per_trial(bytes); ++i) {
      if (place_ + half > static_cast<std::int64_t>(source_.bytes())) place_ = 0;
      HEADNORM_TRY(const double time_us, device_->measure_copy_us(static_cast<std::byte*>(destination_.address()) + place_,
                                                                  static_cast<const std::byte*>(source_.address()) + place_,
                                                                  static_cast<std::size_t>(half)));
      times_us.push_back(time_us);
      if (policy_ == CachePolicy::cold) place_ += half;
    }
    return quantile(times_us, 0.5);
  }

 private:
  Device* device_;
  CachePolicy policy_;
  Buffer source_, destination_;
  std::int64_t place_ = 0;
};

}  // namespace

Result<std::unique_ptr<CopyReference>> make_device_copy(Device& device, CachePolicy policy, std::int64_t largest_bytes) {
  std::int64_t ring = half_of(largest_bytes);
  const std::int64_t cache = device.info().cache_bytes > 0 ? device.info().cache_bytes : kUnknownCacheBytes;
  if (policy == CachePolicy::cold) ring = std::max(ring, cache);
  HEADNORM_TRY(Buffer source, device.allocate(static_cast<std::size_t>(ring)));
  HEADNORM_TRY(Buffer destination, device.allocate(static_cast<std::size_t>(ring)));
  const std::vector<std::byte> content(static_cast<std::size_t>(ring), std::byte{0x3f});
  HEADNORM_CHECK(device.copy_in(source.address(), content.data(), content.size()));
  return std::unique_ptr<CopyReference>(std::make_unique<DeviceCopy>(device, policy, std::move(source), std::move(destination)));
}

}  // namespace headnorm
