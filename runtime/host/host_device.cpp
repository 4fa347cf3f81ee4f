#include "runtime/host/host_device.h"

#include <fmt/format.h>
#include <xmmintrin.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/device.h"
#include "runtime/host/elf_loader.h"
#include "runtime/host/memory.h"
#include "runtime/host/processor.h"
#include "runtime/host/thread_pool.h"

namespace headnorm {
namespace host {

int share_count(std::int64_t rows, std::int64_t total_bytes, int threads) {
  const std::int64_t worthwhile = std::min(rows, total_bytes / kMinShareBytes);
  return static_cast<int>(std::clamp<std::int64_t>(worthwhile, 1, threads));
}

RowRange share_of_rows(std::int64_t rows, int shares, int index) {
  const std::int64_t size = rows / shares, longer = rows % shares;  // the first `longer` shares have one row more
  const std::int64_t begin = index * size + std::min<std::int64_t>(index, longer);
  return {begin, begin + size + (index < longer ? 1 : 0)};
}

namespace {

class HostKernelImage final : public LoadedKernel {
 public:
  HostKernelImage(Plan plan, ElfImage image) : LoadedKernel(std::move(plan)), image_(std::move(image)) {}
  HostKernel function() const { return reinterpret_cast<HostKernel>(image_.entry); }

 private:
  ElfImage image_;
};

// Kernels round to nearest and keep denormals, whatever mode the calling thread is in.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~DefaultFloatMode() { _mm_setcsr(saved_); }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1f80;  // all exceptions masked
  unsigned saved_;
};

// One launch as the kernel's signature wants it.
struct Launch {
  HostKernel function = nullptr;
  std::array<void*, kOperandCount> pointers{};
  std::array<std::int64_t, kOperandCount> strides{};
  std::int64_t rows = 0;
  int shares = 1;

  Launch(const HostKernelImage& kernel, const LaunchArguments& arguments, int threads)
      : function(kernel.function()), rows(arguments.rows) {
    const KernelSpec& spec = kernel.plan().spec;
    std::size_t pointer = 0, stride = 0;
    for (Operand operand : kOperands) {
      if (!has_operand(spec, operand)) continue;
      pointers[pointer++] = arguments.address(operand);
      if (is_row_operand(operand)) strides[stride++] = arguments.stride(operand);
    }
    shares = share_count(rows, minimum_traffic(spec).total_bytes(rows), threads);
  }

  static void run_share(void* context, int index) {
    const auto& launch = *static_cast<const Launch*>(context);
    const RowRange range = share_of_rows(launch.rows, launch.shares, index);
    const DefaultFloatMode mode;
    launch.function(launch.pointers.data(), launch.strides.data(), range.begin, range.end);
  }
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(int threads) : pool_(threads) {
    info_.kind = "host";
    info_.id = "host";
    info_.name = processor_name();
    info_.target = make_host_target(detect_host_isa());
    info_.units = threads;
    info_.memory_bytes = memory_bytes();
    info_.cache_bytes = last_level_cache_bytes();
  }

  const DeviceInfo& info() const override { return info_; }

  Result<Buffer> allocate(std::size_t bytes) override { return map_pages(bytes); }

  Result<void> copy_in(void* device_address, const void* source, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(device_address, source, bytes);
    return {};
  }

  Result<void> copy_out(void* destination, const void* device_address, std::size_t bytes) override {
    return copy_in(destination, device_address, bytes);
  }

  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact, const Plan& plan) override {
    if (artifact.kind != ArtifactKind::object || plan.target.kind != TargetKind::host)
      return user_error(fmt::format("a kernel in the form of {} for {} does not run on the host, {}", to_text(artifact.kind),
                                    to_text(plan.target), to_text(info_.target)),
                        "compile it for this target");
    if (!host_supports(plan.target.isa))
      return user_error(
          fmt::format("a kernel for {} does not run on this processor, which is {}", to_text(plan.target), to_text(info_.target)),
          fmt::format("compile it for {} or a lower target", to_text(info_.target)));
    HEADNORM_TRY(ElfImage image, load_elf_object(artifact.bytes, artifact.entry));
    return std::shared_ptr<const LoadedKernel>(std::make_shared<HostKernelImage>(plan, std::move(image)));
  }

  Result<void> launch(const LoadedKernel& kernel, const LaunchArguments& arguments) override {
    const auto* image = dynamic_cast<const HostKernelImage*>(&kernel);
    if (image == nullptr) return user_error("the kernel was loaded by another device", "load it with the device that launches it");
    HEADNORM_CHECK(check_arguments(kernel.plan().spec, arguments));
    if (arguments.rows == 0) return {};
    if (!satisfies_alignment(kernel.plan(), arguments))
      return user_error(
          fmt::format("y, residual_out or their strides are not multiples of the {} bytes that schedule '{}' asks for",
                      kernel.plan().host().y_alignment, to_text(kernel.plan().schedule)),
          "align them, or use a schedule with store=plain");
    Launch launch(*image, arguments, pool_.threads());
    pool_.run(launch.shares, Launch::run_share, &launch);
    return {};
  }

  Result<void> synchronize() override { return {}; }

  Result<double> measure_us(const LoadedKernel& kernel, const LaunchArguments& arguments) override {
    const auto start = std::chrono::steady_clock::now();
    HEADNORM_CHECK(launch(kernel, arguments));
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  DeviceInfo info_;
  ThreadPool pool_;
};

}  // namespace
}  // namespace host

Result<std::unique_ptr<Device>> make_host_device(int threads) {
  if (threads < 0 || threads > host::kMaxThreads)
    return user_error(fmt::format("{} threads: must be 0 (one per usable processor) to {}", threads, host::kMaxThreads),
                      "choose a number of threads in that range");
  return std::unique_ptr<Device>(std::make_unique<host::HostDevice>(threads == 0 ? host::usable_processors() : threads));
}

}  // namespace headnorm
