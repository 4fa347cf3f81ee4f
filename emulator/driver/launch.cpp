// Launches, and how many blocks a multiprocessor holds.
#include <algorithm>
#include <cstring>

#include "emulator/driver/state.h"

using namespace headnorm::emulator::driver;
using headnorm::emulator::DeviceModel;
using headnorm::emulator::Dim3;
using headnorm::emulator::Fault;
using headnorm::emulator::LaunchResult;
using headnorm::emulator::LaunchShape;
using headnorm::emulator::Rule;

namespace {

CUresult result_of(const Fault& fault) {
  switch (fault.rule) {
    case Rule::in_bounds:
    case Rule::device_memory:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case Rule::alignment:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case Rule::progress:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

std::uint32_t max_cluster(const DriverFunction& function, const DeviceModel& model) {
  return function.allows_large_cluster != 0 ? model.max_large_cluster : model.max_cluster;
}

// What the driver itself refuses, before anything is put into the stream.
CUresult check(const DriverFunction& function, const DeviceModel& model, const LaunchShape& shape) {
  const Dim3 &g = shape.grid, &b = shape.block, &c = shape.cluster;
  if (g.count() == 0 || b.count() == 0) return CUDA_ERROR_INVALID_VALUE;
  if (g.x > model.max_grid.x || g.y > model.max_grid.y || g.z > model.max_grid.z) return CUDA_ERROR_INVALID_VALUE;
  if (b.x > model.max_block.x || b.y > model.max_block.y || b.z > model.max_block.z || b.count() > function.facts.max_threads)
    return CUDA_ERROR_INVALID_VALUE;
  if (shape.dynamic_shared_bytes > function.max_dynamic_shared_bytes) return CUDA_ERROR_INVALID_VALUE;
  if (c.count() > max_cluster(function, model)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (c.count() > 0 && (g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  return CUDA_SUCCESS;
}

std::vector<std::uint8_t> gather(const DriverFunction& function, void** parameters) {
  std::vector<std::uint8_t> bytes(function.facts.parameter_bytes);
  for (std::size_t i = 0; i < function.facts.parameters.size(); ++i)
    std::memcpy(bytes.data() + function.facts.parameters[i].offset, parameters[i], function.facts.parameters[i].bytes);
  return bytes;
}

// kernelParams, or a buffer named in `extra`.
bool take_parameters(const DriverFunction& function, void** parameters, void** extra, std::vector<std::uint8_t>& bytes) {
  if (parameters != nullptr || function.facts.parameters.empty()) {
    bytes = gather(function, parameters);
    return true;
  }
  const auto kEnd = static_cast<std::uintptr_t>(0), kBuffer = static_cast<std::uintptr_t>(1),
             kSize = static_cast<std::uintptr_t>(2);
  const void* buffer = nullptr;
  std::size_t size = 0;
  for (; extra != nullptr && reinterpret_cast<std::uintptr_t>(*extra) != kEnd; extra += 2) {
    if (reinterpret_cast<std::uintptr_t>(extra[0]) == kBuffer) buffer = extra[1];
    if (reinterpret_cast<std::uintptr_t>(extra[0]) == kSize) size = *static_cast<std::size_t*>(extra[1]);
  }
  if (buffer == nullptr || size > function.facts.parameter_bytes) return false;
  bytes.assign(function.facts.parameter_bytes, 0);
  std::memcpy(bytes.data(), buffer, size);
  return true;
}

CUresult run(DriverContext& context, const DriverFunction& function, const LaunchShape& shape,
             const std::vector<std::uint8_t>& parameters) {
  LaunchResult result = device_of(context).launch(*function.module->module, function.name, shape, parameters, driver().options);
  driver().last_counters = result.counters;
  if (!result.fault) return CUDA_SUCCESS;
  driver().last_fault = to_text(*result.fault);
  if (result.fault->rule == Rule::launch_limit) return CUDA_ERROR_INVALID_VALUE;
  context.sticky = result_of(*result.fault);
  return context.sticky;
}

CUresult launch(CUfunction handle, const LaunchShape& shape, CUstream stream_handle, void** parameters, void** extra) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  DriverStream* stream = find_stream(*context, stream_handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto& function = *reinterpret_cast<DriverFunction*>(handle);
  if (function.module->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = check(function, device_of(*context).model(), shape); refused != CUDA_SUCCESS) return refused;
  std::vector<std::uint8_t> bytes;
  if (!take_parameters(function, parameters, extra, bytes)) return CUDA_ERROR_INVALID_VALUE;
  result = submit(*stream, [context, &function, shape, bytes = std::move(bytes)] { return run(*context, function, shape, bytes); });
  // A fault shows at the next call, as on a device that works while the program goes on.
  return context->sticky != CUDA_SUCCESS ? CUDA_SUCCESS : result;
}

std::uint64_t blocks_per_multiprocessor(const DriverFunction& function, const DeviceModel& model, int threads,
                                        std::size_t dynamic_shared_bytes) {
  constexpr std::uint64_t kWarp = 32, kRegisterUnit = 256;
  const std::uint64_t padded = (static_cast<std::uint64_t>(threads) + kWarp - 1) / kWarp * kWarp;
  if (threads <= 0 || padded > function.facts.max_threads) return 0;
  const std::uint64_t shared = function.facts.static_shared_bytes + dynamic_shared_bytes;
  if (shared > model.shared_per_block_optin) return 0;
  const std::uint64_t registers =
      (function.facts.registers * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit * (padded / kWarp);
  return std::min({model.threads_per_multiprocessor / padded, std::uint64_t{model.blocks_per_multiprocessor},
                   model.shared_per_multiprocessor / (shared + model.shared_reserved), model.registers_per_block / registers});
}

}  // namespace

HEADNORM_DRIVER_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                               unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                               unsigned int shared_bytes, CUstream stream, void** parameters, void** extra) {
  return launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {0, 0, 0}, shared_bytes}, stream, parameters,
                extra);
}

HEADNORM_DRIVER_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                                                 void** extra) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  LaunchShape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                    {config->blockDimX, config->blockDimY, config->blockDimZ},
                    {0, 0, 0},
                    config->sharedMemBytes};
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        shape.cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z};
        if (shape.cluster.count() == 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        shape.starts_early = attribute.value.programmaticStreamSerializationAllowed != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        if (attribute.value.cooperative != 0) return CUDA_ERROR_NOT_SUPPORTED;
        break;
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        break;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return launch(function, shape, config->hStream, parameters, extra);
}

HEADNORM_DRIVER_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle, int threads,
                                                                                     std::size_t shared_bytes, unsigned int) {
  const std::lock_guard guard(driver().lock);
  if (blocks == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& function = *reinterpret_cast<DriverFunction*>(handle);
  *blocks =
      static_cast<int>(blocks_per_multiprocessor(function, device_of(*function.module->context).model(), threads, shared_bytes));
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                                            std::size_t shared_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared_bytes, 0);
}

HEADNORM_DRIVER_EXPORT CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle, const CUlaunchConfig* config) {
  const std::lock_guard guard(driver().lock);
  if (clusters == nullptr || handle == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& function = *reinterpret_cast<DriverFunction*>(handle);
  const DeviceModel& model = device_of(*function.module->context).model();
  std::uint64_t size = 1;
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      size = Dim3{attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z}.count();
  }
  if (size == 0 || size > max_cluster(function, model)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  const int threads = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
  const std::uint64_t blocks = blocks_per_multiprocessor(function, model, threads, config->sharedMemBytes) *
                               static_cast<std::uint64_t>(model.multiprocessors);
  *clusters = static_cast<int>(blocks / size);
  return CUDA_SUCCESS;
}

// ---- the stand-in's own: what a test wants to know ----
HEADNORM_DRIVER_EXPORT const char* headnorm_emulator_last_fault() {
  const std::lock_guard guard(driver().lock);
  return driver().last_fault.c_str();
}
