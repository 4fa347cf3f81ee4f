// The part of the CUDA Driver API that headnorm calls, under names of its own: types, values and signatures are the documented,
// stable ones, so that building needs no CUDA headers and linking no libcuda.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headnorm::cuda {

using Status = int;  // CUresult
inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kNoBinaryForGpu = 209;
inline constexpr Status kInvalidPtx = 218;
inline constexpr Status kUnsupportedPtxVersion = 222;
inline constexpr Status kIllegalAddress = 700;  // this and the faults up to kLaunchFailed stay with the context
inline constexpr Status kLaunchOutOfResources = 701;
inline constexpr Status kLaunchFailed = 719;
inline constexpr Status kCaptureUnsupported = 900;

using DeviceHandle = int;
using DevicePointer = std::uint64_t;
using ContextHandle = struct ContextObject*;
using ModuleHandle = struct ModuleObject*;
using FunctionHandle = struct FunctionObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;
using LinkHandle = struct LinkStateObject*;

enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  max_grid_x = 5,
  shared_bytes_per_block = 8,
  multiprocessors = 16,
  l2_cache_bytes = 38,
  capability_major = 75,
  capability_minor = 76,
  shared_bytes_per_block_opt_in = 97,
};

enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_bytes = 1,  // static
  local_bytes = 3,
  registers = 4,
  max_dynamic_shared_bytes = 8,
  large_cluster_allowed = 14,  // of more blocks than every device takes
};

enum class JitOption : int {
  info_log = 3,
  info_log_bytes = 4,
  error_log = 5,
  error_log_bytes = 6,
  log_verbose = 12,
};

enum class LinkInput : int { ptx = 1 };

enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;

enum class LaunchAttributeId : int {
  cluster_dimension = 4,
  programmatic_stream_serialization = 6,
};

union LaunchAttributeValue {
  char room[64];
  struct {
    unsigned x, y, z;
  } cluster;
  int programmatic_stream_serialization;  // allowed
};

struct LaunchAttribute {
  LaunchAttributeId id;
  char padding[4];
  LaunchAttributeValue value;
};

struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned dynamic_shared_bytes = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

// X(member, exported name, signature); the error names come first, so that a failure to open can be told.
#define HEADNORM_CUDA_FUNCTIONS(X)                                                                                   \
  X(get_error_name, "cuGetErrorName", Status(Status, const char**))                                                  \
  X(get_error_string, "cuGetErrorString", Status(Status, const char**))                                              \
  X(init, "cuInit", Status(unsigned))                                                                                \
  X(driver_get_version, "cuDriverGetVersion", Status(int*))                                                          \
  X(device_get_count, "cuDeviceGetCount", Status(int*))                                                              \
  X(device_get, "cuDeviceGet", Status(DeviceHandle*, int))                                                           \
  X(device_get_name, "cuDeviceGetName", Status(char*, int, DeviceHandle))                                            \
  X(device_total_mem, "cuDeviceTotalMem_v2", Status(std::size_t*, DeviceHandle))                                     \
  X(device_get_attribute, "cuDeviceGetAttribute", Status(int*, DeviceAttribute, DeviceHandle))                       \
  X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", Status(ContextHandle*, DeviceHandle))                            \
  X(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", Status(DeviceHandle))                                       \
  X(ctx_push_current, "cuCtxPushCurrent_v2", Status(ContextHandle))                                                  \
  X(ctx_pop_current, "cuCtxPopCurrent_v2", Status(ContextHandle*))                                                   \
  X(mem_alloc, "cuMemAlloc_v2", Status(DevicePointer*, std::size_t))                                                 \
  X(mem_free, "cuMemFree_v2", Status(DevicePointer))                                                                 \
  X(memcpy_to_device, "cuMemcpyHtoD_v2", Status(DevicePointer, const void*, std::size_t))                            \
  X(memcpy_to_host, "cuMemcpyDtoH_v2", Status(void*, DevicePointer, std::size_t))                                    \
  X(memcpy_on_device, "cuMemcpyDtoDAsync_v2", Status(DevicePointer, DevicePointer, std::size_t, StreamHandle))       \
  X(module_load_data, "cuModuleLoadDataEx", Status(ModuleHandle*, const void*, unsigned, JitOption*, void**))        \
  X(module_unload, "cuModuleUnload", Status(ModuleHandle))                                                           \
  X(module_get_function, "cuModuleGetFunction", Status(FunctionHandle*, ModuleHandle, const char*))                  \
  X(func_get_attribute, "cuFuncGetAttribute", Status(int*, FunctionAttribute, FunctionHandle))                       \
  X(func_set_attribute, "cuFuncSetAttribute", Status(FunctionHandle, FunctionAttribute, int))                        \
  X(occupancy_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor", Status(int*, FunctionHandle, int, std::size_t)) \
  X(occupancy_clusters, "cuOccupancyMaxActiveClusters", Status(int*, FunctionHandle, const LaunchConfig*))           \
  X(launch_kernel, "cuLaunchKernelEx", Status(const LaunchConfig*, FunctionHandle, void**, void**))                  \
  X(stream_create, "cuStreamCreate", Status(StreamHandle*, unsigned))                                                \
  X(stream_destroy, "cuStreamDestroy_v2", Status(StreamHandle))                                                      \
  X(stream_synchronize, "cuStreamSynchronize", Status(StreamHandle))                                                 \
  X(stream_is_capturing, "cuStreamIsCapturing", Status(StreamHandle, CaptureStatus*))                                \
  X(event_create, "cuEventCreate", Status(EventHandle*, unsigned))                                                   \
  X(event_destroy, "cuEventDestroy_v2", Status(EventHandle))                                                         \
  X(event_record, "cuEventRecord", Status(EventHandle, StreamHandle))                                                \
  X(event_synchronize, "cuEventSynchronize", Status(EventHandle))                                                    \
  X(event_elapsed_time, "cuEventElapsedTime", Status(float*, EventHandle, EventHandle))

// Those that a driver may be without: only code for exactly one GPU is made with them.
#define HEADNORM_CUDA_LINK_FUNCTIONS(X)                                                           \
  X(link_create, "cuLinkCreate_v2", Status(unsigned, JitOption*, void**, LinkHandle*))            \
  X(link_add_data, "cuLinkAddData_v2",                                                            \
    Status(LinkHandle, LinkInput, void*, std::size_t, const char*, unsigned, JitOption*, void**)) \
  X(link_complete, "cuLinkComplete", Status(LinkHandle, void**, std::size_t*))                    \
  X(link_destroy, "cuLinkDestroy", Status(LinkHandle))

}  // namespace headnorm::cuda
