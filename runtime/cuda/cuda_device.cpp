#include "runtime/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <optional>

#include "core/cluster.h"
#include "runtime/cuda/cubin_compiler.h"
#include "runtime/cuda/device_facts.h"
#include "runtime/cuda/handles.h"
#include "runtime/cuda/launch_attributes.h"
#include "runtime/cuda/stream_timer.h"

namespace headnorm {
namespace cuda {
namespace {

class CudaKernel final : public LoadedKernel {
 public:
  CudaKernel(Plan plan, Module module, FunctionHandle function, int resident_blocks, const void* device)
      : LoadedKernel(std::move(plan)),
        module_(std::move(module)),
        function_(function),
        resident_blocks_(resident_blocks),
        device_(device) {}
  FunctionHandle function() const { return function_; }
  bool is_of(const void* device) const { return device_ == device; }

  // Of the grid: one cluster for each tile, or, of a persistent kernel, as many as the device holds at a time.
  std::int64_t blocks_for(std::int64_t rows) const {
    const std::int64_t blocks = grid_blocks(plan(), rows);
    return plan().gpu_schedule().grid == GridForm::persistent ? std::min<std::int64_t>(blocks, resident_blocks_) : blocks;
  }

 private:
  Module module_;
  FunctionHandle function_;
  int resident_blocks_;  // that the device holds at a time: whole clusters
  const void* device_;
};

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> make(const CudaDriverOptions& options, int ordinal);

  const DeviceInfo& info() const override { return facts_.info; }
  Result<Buffer> allocate(std::size_t bytes) override;
  Result<void> copy_in(void* device_address, const void* source, std::size_t bytes) override;
  Result<void> copy_out(void* destination, const void* device_address, std::size_t bytes) override;
  DeviceCompiler* compiler() override;
  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact, const Plan& plan) override;
  Result<void> check_can_load(void* stream) override;
  Result<void> launch(const LoadedKernel& kernel, const LaunchArguments& arguments) override;
  Result<void> synchronize() override;
  Result<double> measure_us(const LoadedKernel& kernel, const LaunchArguments& arguments) override;
  Result<double> measure_copy_us(void* to, const void* from, std::size_t bytes) override;

 private:
  CudaDevice(DeviceFacts facts, std::shared_ptr<const PrimaryContext> context, Stream stream, std::vector<std::string> linkers)
      : facts_(std::move(facts)), context_(std::move(context)), stream_(std::move(stream)), linkers_(std::move(linkers)) {}

  const Driver& driver() const { return context_->driver(); }
  Result<void> check(Status status, std::string_view what) const { return driver().check(status, what); }
  Result<void> check_function(const Plan& plan, FunctionHandle function) const;
  Result<int> resident_blocks(const Plan& plan, FunctionHandle function) const;
  Result<const CudaKernel*> own_kernel(const LoadedKernel& kernel) const;
  Result<void> queue(const CudaKernel& kernel, const LaunchArguments& arguments, StreamHandle stream) const;
  Result<double> time_us(const std::function<Result<void>()>& queue_work);

  DeviceFacts facts_;
  std::shared_ptr<const PrimaryContext> context_;
  Stream stream_;
  const std::vector<std::string> linkers_;
  std::once_flag compiler_made_;  // by the first that asks: the library is large
  std::unique_ptr<DeviceCompiler> compiler_;
  std::mutex timing_mutex_;           // of timer_, and of one measurement at a time
  std::optional<StreamTimer> timer_;  // made by the first that measures
};

Result<std::unique_ptr<Device>> CudaDevice::make(const CudaDriverOptions& options, int ordinal) {
  HEADNORM_TRY(const auto driver, Driver::open(options.library));
  int count = 0;
  HEADNORM_CHECK(driver->check(driver->device_get_count(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count)
    return user_error(fmt::format("there is no device {}:{}: the driver has {}", options.kind, ordinal, count),
                      count > 0 ? fmt::format("use {}:0 to {}:{}", options.kind, options.kind, count - 1) : "use --device host");
  DeviceHandle device = 0;
  HEADNORM_CHECK(driver->check(driver->device_get(&device, ordinal), "cuDeviceGet"));
  HEADNORM_TRY(DeviceFacts facts, facts_of(*driver, options, ordinal, device));
  HEADNORM_TRY(auto context, PrimaryContext::retain(driver, device));
  const CurrentContext current(*context);
  HEADNORM_CHECK(current.check());
  HEADNORM_TRY(Stream stream, make_stream(context));
  return std::unique_ptr<Device>(new CudaDevice(std::move(facts), std::move(context), std::move(stream), options.linkers));
}

Result<Buffer> CudaDevice::allocate(std::size_t bytes) {
  const CurrentContext current(*context_);
  HEADNORM_CHECK(current.check());
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);  // the driver refuses none
  DevicePointer address = 0;
  HEADNORM_CHECK(check(driver().mem_alloc(&address, wanted), fmt::format("cuMemAlloc of {} bytes on {}", bytes, info().id)));
  return Buffer(reinterpret_cast<void*>(address), wanted, [context = context_](void* memory, std::size_t) {
    const CurrentContext owner(*context);
    context->driver().mem_free(reinterpret_cast<DevicePointer>(memory));
  });
}

Result<void> CudaDevice::copy_in(void* device_address, const void* source, std::size_t bytes) {
  if (bytes == 0) return {};
  HEADNORM_CHECK(synchronize());
  const CurrentContext current(*context_);
  HEADNORM_CHECK(current.check());
  return check(driver().memcpy_to_device(reinterpret_cast<DevicePointer>(device_address), source, bytes),
               fmt::format("cuMemcpyHtoD of {} bytes", bytes));
}

Result<void> CudaDevice::copy_out(void* destination, const void* device_address, std::size_t bytes) {
  if (bytes == 0) return {};
  HEADNORM_CHECK(synchronize());
  const CurrentContext current(*context_);
  HEADNORM_CHECK(current.check());
  return check(driver().memcpy_to_host(destination, reinterpret_cast<DevicePointer>(device_address), bytes),
               fmt::format("cuMemcpyDtoH of {} bytes", bytes));
}

// The driver refuses a launch that breaks these too, but by number alone and only then.
Result<void> CudaDevice::check_function(const Plan& plan, FunctionHandle function) const {
  int threads = 0, shared = 0;
  HEADNORM_CHECK(check(driver().func_get_attribute(&threads, FunctionAttribute::max_threads_per_block, function),
                       "cuFuncGetAttribute(MAX_THREADS_PER_BLOCK)"));
  if (plan.gpu().block_threads > std::min(threads, facts_.max_threads_per_block))
    return user_error(
        fmt::format("schedule '{}' has {} threads in a block; on {} this kernel's registers allow {}, the device {}",
                    to_text(plan.schedule), plan.gpu().block_threads, info().name, threads, facts_.max_threads_per_block),
        "use a schedule with a smaller block");
  HEADNORM_CHECK(check(driver().func_get_attribute(&shared, FunctionAttribute::shared_bytes, function),
                       "cuFuncGetAttribute(SHARED_SIZE_BYTES)"));
  const int dynamic = plan.gpu().dynamic_shared_bytes;
  if (shared + dynamic > facts_.max_shared_bytes_per_block)
    return user_error(fmt::format("schedule '{}' takes {} bytes of shared memory a block; {} has {}", to_text(plan.schedule),
                                  shared + dynamic, info().name, facts_.max_shared_bytes_per_block),
                      "use a schedule with another residency or a smaller block");
  // Both are set once, by whoever loads: this function is this kernel's alone, so that nobody changes them before a launch starts.
  if (plan.gpu().cluster > kPortableCluster)
    HEADNORM_CHECK(check(driver().func_set_attribute(function, FunctionAttribute::large_cluster_allowed, 1),
                         "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)"));
  if (dynamic == 0) return {};
  return check(driver().func_set_attribute(function, FunctionAttribute::max_dynamic_shared_bytes, dynamic),
               fmt::format("cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES, {})", dynamic));
}

DeviceCompiler* CudaDevice::compiler() {
  std::call_once(compiler_made_, [this] { compiler_ = make_cubin_compiler(context_, facts_.capability, linkers_); });
  return compiler_.get();
}

Result<std::shared_ptr<const LoadedKernel>> CudaDevice::load(const Artifact& artifact, const Plan& plan) {
  if (artifact.kind == ArtifactKind::object || plan.target.kind != TargetKind::gpu)
    return user_error(fmt::format("a kernel in the form of {} for {} does not run on {}, {}", to_text(artifact.kind),
                                  to_text(plan.target), info().id, to_text(info().target)),
                      "compile it for this target");
  if (!runs_on(plan.target, facts_.capability))
    return user_error(
        fmt::format("a kernel for {} does not run on {}, which is sm_{}", to_text(plan.target), info().name, facts_.capability),
        fmt::format("compile it for {}", to_text(info().target)));
  if (const int newest = newest_ptx(driver().version()); artifact.kind == ArtifactKind::ptx && plan.target.ptx > newest)
    return user_error(fmt::format("the kernel is PTX {}.{}; the driver, for CUDA {}, takes PTX {}.{} at most", plan.target.ptx / 10,
                                  plan.target.ptx % 10, info().driver, newest / 10, newest % 10),
                      fmt::format("compile it for {}, or install a newer driver", to_text(info().target)));
  const CurrentContext current(*context_);
  HEADNORM_CHECK(current.check());
  HEADNORM_TRY(Module module, load_module(context_, artifact.bytes));
  FunctionHandle function = nullptr;
  HEADNORM_CHECK(check(driver().module_get_function(&function, module.get(), artifact.entry.c_str()),
                       fmt::format("cuModuleGetFunction of '{}'", artifact.entry)));
  HEADNORM_CHECK(check_function(plan, function));
  HEADNORM_TRY(const int blocks, resident_blocks(plan, function));
  return std::shared_ptr<const LoadedKernel>(
      std::make_shared<CudaKernel>(plan, std::move(module), function, blocks, context_.get()));
}

// Blocks of the kernel that the device holds at a time.
Result<int> CudaDevice::resident_blocks(const Plan& plan, FunctionHandle function) const {
  const GpuPlan& shape = plan.gpu();
  int blocks = 0;
  if (shape.cluster > 1) {
    LaunchConfig config;
    config.grid_x = static_cast<unsigned>(shape.cluster);
    config.block_x = static_cast<unsigned>(shape.block_threads);
    config.dynamic_shared_bytes = static_cast<unsigned>(shape.dynamic_shared_bytes);
    LaunchAttributes attributes(plan);
    attributes.attach_to(config);
    int clusters = 0;
    HEADNORM_CHECK(check(driver().occupancy_clusters(&clusters, function, &config), "cuOccupancyMaxActiveClusters"));
    blocks = clusters * shape.cluster;
  } else {
    HEADNORM_CHECK(check(
        driver().occupancy_blocks(&blocks, function, shape.block_threads, static_cast<std::size_t>(shape.dynamic_shared_bytes)),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
    blocks *= info().units;
  }
  if (blocks >= 1) return blocks;
  return user_error(
      fmt::format("schedule '{}': {} holds no {} of {} threads and {} bytes of dynamic shared memory", to_text(plan.schedule),
                  info().name, shape.cluster > 1 ? fmt::format("cluster of {} blocks", shape.cluster) : "block",
                  shape.block_threads, shape.dynamic_shared_bytes),
      "use a schedule with a smaller block or cluster, or another residency");
}

Result<void> CudaDevice::check_can_load(void* stream) {
  if (stream == nullptr) return {};
  const CurrentContext current(*context_);
  HEADNORM_CHECK(current.check());
  CaptureStatus status = CaptureStatus::none;
  HEADNORM_CHECK(check(driver().stream_is_capturing(static_cast<StreamHandle>(stream), &status), "cuStreamIsCapturing"));
  if (status == CaptureStatus::none) return {};
  return user_error("the stream is being captured into a graph, and this kernel is not loaded yet",
                    "call prepare() with the spec and the row count before the capture begins");
}

Result<const CudaKernel*> CudaDevice::own_kernel(const LoadedKernel& kernel) const {
  const auto* own = dynamic_cast<const CudaKernel*>(&kernel);
  if (own == nullptr || !own->is_of(context_.get()))
    return user_error("the kernel was loaded by another device", "load it with the device that launches it");
  return own;
}

// One launch, or several where the rows are more than a grid holds.
Result<void> CudaDevice::queue(const CudaKernel& kernel, const LaunchArguments& arguments, StreamHandle stream) const {
  const Plan& plan = kernel.plan();
  const KernelSpec& spec = plan.spec;
  LaunchAttributes attributes(plan);
  for (std::int64_t first = 0; first < arguments.rows; first += plan.gpu().max_rows_per_launch) {
    std::int64_t rows = std::min(arguments.rows - first, plan.gpu().max_rows_per_launch);
    std::array<std::uint64_t, 2 * kOperandCount + 1> values{};
    std::array<void*, values.size()> parameters{};
    std::size_t count = 0;
    for (Operand operand : kOperands) {
      if (!has_operand(spec, operand)) continue;
      const std::int64_t skipped = is_row_operand(operand) ? first * arguments.stride(operand) : 0;
      values[count++] = reinterpret_cast<std::uint64_t>(arguments.address(operand)) +
                        static_cast<std::uint64_t>(skipped * size_bytes(operand_dtype(spec, operand)));
    }
    for (Operand operand : kOperands) {
      if (is_row_operand(operand) && has_operand(spec, operand))
        values[count++] = static_cast<std::uint64_t>(arguments.stride(operand));
    }
    values[count++] = static_cast<std::uint64_t>(rows);
    for (std::size_t i = 0; i < count; ++i) parameters[i] = &values[i];

    LaunchConfig config;
    config.grid_x = static_cast<unsigned>(kernel.blocks_for(rows));
    config.block_x = static_cast<unsigned>(plan.gpu().block_threads);
    config.dynamic_shared_bytes = static_cast<unsigned>(plan.gpu().dynamic_shared_bytes);
    config.stream = stream;
    attributes.attach_to(config);
    HEADNORM_CHECK(check(driver().launch_kernel(&config, kernel.function(), parameters.data(), nullptr), "cuLaunchKernelEx"));
  }
  return {};
}

Result<void> CudaDevice::launch(const LoadedKernel& kernel, const LaunchArguments& arguments) {
  HEADNORM_TRY(const CudaKernel* own, own_kernel(kernel));
  HEADNORM_CHECK(check_arguments(kernel.plan().spec, arguments));
  if (arguments.rows == 0) return {};
  if (!kernel.takes_alignment_of(arguments))
    return user_error(fmt::format("an address or row stride is not a multiple of what schedule '{}' asks for, up to {} bytes",
                                  to_text(kernel.plan().schedule), kernel.plan().gpu().access_bytes),
                      "align them, or use a schedule with a smaller access");
  const CurrentContext current(*context_);
  HEADNORM_CHECK(current.check());
  return queue(*own, arguments, arguments.stream != nullptr ? static_cast<StreamHandle>(arguments.stream) : stream_.get());
}

Result<void> CudaDevice::synchronize() {
  const CurrentContext current(*context_);
  HEADNORM_CHECK(current.check());
  return check(driver().stream_synchronize(stream_.get()), "cuStreamSynchronize");
}

// Of what `queue_work` puts on the device's stream.
Result<double> CudaDevice::time_us(const std::function<Result<void>()>& queue_work) {
  const std::lock_guard lock(timing_mutex_);
  const CurrentContext current(*context_);
  HEADNORM_CHECK(current.check());
  if (!timer_) {
    HEADNORM_TRY(StreamTimer timer, StreamTimer::make(context_));
    timer_.emplace(std::move(timer));
  }
  return timer_->time_us(stream_.get(), queue_work);
}

Result<double> CudaDevice::measure_us(const LoadedKernel& kernel, const LaunchArguments& arguments) {
  if (arguments.rows <= 0) {
    HEADNORM_CHECK(launch(kernel, arguments));
    return 0.0;
  }
  LaunchArguments timed = arguments;
  timed.stream = nullptr;
  return time_us([&] { return launch(kernel, timed); });
}

Result<double> CudaDevice::measure_copy_us(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return 0.0;
  return time_us([&] {
    return check(
        driver().memcpy_on_device(reinterpret_cast<DevicePointer>(to), reinterpret_cast<DevicePointer>(from), bytes, stream_.get()),
        fmt::format("cuMemcpyDtoDAsync of {} bytes", bytes));
  });
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Device>> make_cuda_device(const CudaDriverOptions& options, int ordinal) {
  return cuda::CudaDevice::make(options, ordinal);
}

}  // namespace headnorm
