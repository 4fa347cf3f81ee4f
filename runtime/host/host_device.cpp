#include "runtime/host/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>

#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/host/elf_loader.h"
#include "runtime/host/float_mode.h"
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

  void run_share(int index) const {
    const RowRange range = share_of_rows(rows, shares, index);
    const DefaultFloatMode mode;
    function(pointers.data(), strides.data(), range.begin, range.end);
  }
};

// The shares of a launch as tasks: each runs once, however often it is asked for.
struct Shares {
  const Launch& launch;
  std::array<std::atomic<std::uint64_t>, kMaxThreads / 64> begun{};  // a bit for each share
  std::atomic<int> done = 0;

  void run(int index) {
    if (index < 0 || index >= launch.shares) return;
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((begun[static_cast<std::size_t>(index / 64)].fetch_or(bit) & bit) != 0) return;
    launch.run_share(index);
    ++done;
  }
};

Error executor_error(const std::string& what) {
  return environment_error(fmt::format("the executor that the host device was given failed: {}; the outputs are incomplete", what),
                           "launch again with an executor that runs every task once (runtime/executor.h)");
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(std::shared_ptr<Executor> executor) : executor_(std::move(executor)) {
    info_.kind = "host";
    info_.id = "host";
    info_.name = processor_name();
    info_.target = make_host_target(detect_host_isa());
    info_.units = executor_->threads();
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
    if (arguments.stream != nullptr)
      return user_error("a launch on the host has a stream: the host has none", "leave LaunchArguments::stream null");
    HEADNORM_CHECK(check_arguments(kernel.plan().spec, arguments));
    if (arguments.rows == 0) return {};
    if (!kernel.takes_alignment_of(arguments))
      return user_error(
          fmt::format("y, residual_out or their strides are not multiples of what schedule '{}' asks for, up to {} bytes",
                      to_text(kernel.plan().schedule), kernel.plan().host().y_alignment),
          "align them, or use a schedule with store=plain");
    return run(Launch(*image, arguments, info_.units));
  }

  Result<void> synchronize() override { return {}; }

  Result<double> measure_us(const LoadedKernel& kernel, const LaunchArguments& arguments) override {
    const auto start = std::chrono::steady_clock::now();
    HEADNORM_CHECK(launch(kernel, arguments));
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  // The executor is the caller's code: what it leaves out, does twice or throws must not look like a result.
  Result<void> run(const Launch& launch) {
    if (launch.shares == 1) {
      launch.run_share(0);
      return {};
    }
    Shares shares{launch};
    try {
      executor_->run(launch.shares, [&shares](int index) { shares.run(index); });  // one reference: it fits std::function
    } catch (const std::exception& thrown) {
      return executor_error(thrown.what());
    } catch (...) {
      return executor_error("it threw what is no std::exception");
    }
    if (shares.done != launch.shares)
      return executor_error(fmt::format("it ran {} of {} tasks", shares.done.load(), launch.shares));
    return {};
  }

  DeviceInfo info_;
  std::shared_ptr<Executor> executor_;
};

}  // namespace
}  // namespace host

Result<std::unique_ptr<Device>> make_host_device(int threads) {
  if (threads < 0 || threads > host::kMaxThreads)
    return user_error(fmt::format("{} threads: must be 0 (one per usable processor) to {}", threads, host::kMaxThreads),
                      "choose a number of threads in that range");
  return make_host_device(std::make_shared<host::ThreadPool>(threads == 0 ? host::usable_processors() : threads));
}

Result<std::unique_ptr<Device>> make_host_device(std::shared_ptr<Executor> executor) {
  if (executor == nullptr) return user_error("the host device was given no executor", "give one, or a number of threads");
  if (executor->threads() < 1 || executor->threads() > host::kMaxThreads)
    return user_error(fmt::format("an executor of {} threads: must be 1 to {}", executor->threads(), host::kMaxThreads),
                      "let its threads() say how many tasks it runs at a time");
  return std::unique_ptr<Device>(std::make_unique<host::HostDevice>(std::move(executor)));
}

}  // namespace headnorm
