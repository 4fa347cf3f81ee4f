#include "runtime/cuda/device_facts.h"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace headnorm {
namespace cuda {
namespace {

Result<int> attribute(const Driver& driver, DeviceHandle device, DeviceAttribute which) {
  int value = 0;
  HEADNORM_CHECK(driver.check(driver.device_get_attribute(&value, which, device), "cuDeviceGetAttribute"));
  return value;
}

Result<Target> target_of(int capability, const std::string& name, int driver_version) {
  if (const std::optional<Target> best = best_target(capability, driver_version)) return *best;
  return environment_error(fmt::format("{} (sm_{}) with a driver for CUDA {}.{} runs no target that headnorm generates for", name,
                                       capability, driver_version / 1000, driver_version % 1000 / 10),
                           "use a GPU of sm_80 or later with an up-to-date driver, or --device host");
}

}  // namespace

Result<DeviceFacts> facts_of(const Driver& driver, const CudaDriverOptions& options, int ordinal, DeviceHandle device) {
  DeviceFacts facts;
  DeviceInfo& info = facts.info;
  info.kind = options.kind;
  const auto place = static_cast<std::size_t>(ordinal);
  info.id = fmt::format("{}:{}", options.kind, place < options.names.size() ? options.names[place] : fmt::to_string(ordinal));
  std::array<char, 256> name{};
  HEADNORM_CHECK(driver.check(driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device), "cuDeviceGetName"));
  info.name = name.data();
  info.driver = fmt::format("{}.{}", driver.version() / 1000, driver.version() % 1000 / 10);
  std::size_t memory = 0;
  HEADNORM_CHECK(driver.check(driver.device_total_mem(&memory, device), "cuDeviceTotalMem"));
  info.memory_bytes = static_cast<std::int64_t>(memory);
  HEADNORM_TRY(info.units, attribute(driver, device, DeviceAttribute::multiprocessors));
  HEADNORM_TRY(info.cache_bytes, attribute(driver, device, DeviceAttribute::l2_cache_bytes));
  HEADNORM_TRY(const int major, attribute(driver, device, DeviceAttribute::capability_major));
  HEADNORM_TRY(const int minor, attribute(driver, device, DeviceAttribute::capability_minor));
  facts.capability = major * 10 + minor;
  HEADNORM_TRY(info.target, target_of(facts.capability, info.name, driver.version()));
  HEADNORM_TRY(facts.max_threads_per_block, attribute(driver, device, DeviceAttribute::max_threads_per_block));
  HEADNORM_TRY(facts.max_shared_bytes_per_block, attribute(driver, device, DeviceAttribute::shared_bytes_per_block_opt_in));
  return facts;
}

}  // namespace cuda

Result<std::vector<DeviceInfo>> list_cuda_devices(const CudaDriverOptions& options) {
  HEADNORM_TRY(const auto driver, cuda::Driver::open(options.library));
  int count = 0;
  HEADNORM_CHECK(driver->check(driver->device_get_count(&count), "cuDeviceGetCount"));
  std::vector<DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::DeviceHandle device = 0;
    HEADNORM_CHECK(driver->check(driver->device_get(&device, ordinal), "cuDeviceGet"));
    Result<cuda::DeviceFacts> facts = cuda::facts_of(*driver, options, ordinal, device);
    if (facts.ok()) devices.push_back(std::move(facts->info));  // others cannot run what headnorm generates
  }
  return devices;
}

}  // namespace headnorm
