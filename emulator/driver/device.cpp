// Initialisation, devices, contexts and the names of errors.
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "emulator/driver/state.h"

namespace headnorm::emulator::driver {
namespace {

constexpr int kDriverVersion = 13000;

struct ErrorRow {
  CUresult result;
  const char *name, *text;
};

constexpr ErrorRow kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device is available"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "the primary context is active"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capture sequence contains a fork that was not joined"},
    {CUDA_ERROR_INVALID_CLUSTER_SIZE, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster misconfiguration"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorRow* find_error(CUresult result) {
  for (const ErrorRow& row : kErrors) {
    if (row.result == result) return &row;
  }
  return nullptr;
}

// A stand-in has no other way to be told what to be than its environment: HEADNORM_EMULATOR_DEVICES, a list such as "h200,a100";
// HEADNORM_EMULATOR_STREAMS, "eager" or "queued"; HEADNORM_EMULATOR_ORDER, "forward", "reverse" or a seed for random orders.
bool read_environment(Driver& state) {
  const char* devices = std::getenv("HEADNORM_EMULATOR_DEVICES");
  std::stringstream list(devices == nullptr || *devices == '\0' ? "h200" : devices);
  for (std::string slug; std::getline(list, slug, ',');) {
    const std::optional<Model> model = parse_model(slug);
    if (!model) return false;
    DriverDevice device;
    device.device = std::make_unique<Device>(*model, static_cast<int>(state.devices.size()));
    state.devices.push_back(std::move(device));
  }
  const char* streams = std::getenv("HEADNORM_EMULATOR_STREAMS");
  if (streams != nullptr && std::strcmp(streams, "queued") == 0) state.eagerness = Eagerness::queued;
  if (const char* order = std::getenv("HEADNORM_EMULATOR_ORDER"); order != nullptr) {
    state.options.order = std::strcmp(order, "reverse") == 0   ? Order::reverse
                          : std::strcmp(order, "forward") == 0 ? Order::forward
                                                               : Order::random;
    if (state.options.order == Order::random) state.options.seed = std::strtoull(order, nullptr, 10);
  }
  return true;
}

DriverDevice* find_device(CUdevice device) {
  if (device < 0 || static_cast<std::size_t>(device) >= driver().devices.size()) return nullptr;
  return &driver().devices[static_cast<std::size_t>(device)];
}

std::unique_ptr<DriverContext> make_context(int device) {
  auto context = std::make_unique<DriverContext>();
  context->device = device;
  context->null_stream.context = context.get();
  return context;
}

int attribute_of(const DeviceModel& m, CUdevice_attribute attribute, int ordinal) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(m.threads_per_block);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      return static_cast<int>(m.max_block.x);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return static_cast<int>(m.max_block.y);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return static_cast<int>(m.max_block.z);
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return static_cast<int>(m.max_grid.x);
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
      return static_cast<int>(m.max_grid.y);
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return static_cast<int>(m.max_grid.z);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return static_cast<int>(m.shared_per_block);
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return static_cast<int>(m.registers_per_block);
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return m.clock_khz;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return m.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return m.memory_clock_khz;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return m.memory_bus_bits;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return static_cast<int>(m.l2_bytes);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return static_cast<int>(m.threads_per_multiprocessor);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return ordinal + 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return m.sm / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return m.sm % 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return static_cast<int>(m.shared_per_multiprocessor);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return static_cast<int>(m.shared_per_block_optin);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return static_cast<int>(m.blocks_per_multiprocessor);
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return static_cast<int>(m.shared_reserved);
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
      return m.max_cluster > 1 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      return 1;
    default:
      return 0;  // what the device has not
  }
}

}  // namespace
}  // namespace headnorm::emulator::driver

using namespace headnorm::emulator::driver;
using headnorm::emulator::DeviceModel;

HEADNORM_DRIVER_EXPORT CUresult cuInit(unsigned int flags) {
  const std::lock_guard guard(driver().lock);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver().is_initialised) return CUDA_SUCCESS;
  driver().devices.clear();
  if (!read_environment(driver()) || driver().devices.empty()) return CUDA_ERROR_NO_DEVICE;
  driver().is_initialised = true;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuGetErrorName(CUresult error, const char** text) {
  const ErrorRow* row = find_error(error);
  if (text == nullptr || row == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = row->name;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorRow* row = find_error(error);
  if (text == nullptr || row == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = row->text;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuDeviceGetCount(int* count) {
  const std::lock_guard guard(driver().lock);
  if (!driver().is_initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(driver().devices.size());
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const std::lock_guard guard(driver().lock);
  if (!driver().is_initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

// Of every question about one device: the device, or why there is no answer.
#define HEADNORM_DRIVER_DEVICE(found, number, pointer)             \
  const std::lock_guard guard(driver().lock);                      \
  if (!driver().is_initialised) return CUDA_ERROR_NOT_INITIALIZED; \
  if ((pointer) == nullptr) return CUDA_ERROR_INVALID_VALUE;       \
  DriverDevice* found = find_device(number);                       \
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE

HEADNORM_DRIVER_EXPORT CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, name);
  if (size <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::strncpy(name, found->device->model().name, static_cast<std::size_t>(size));
  name[size - 1] = '\0';
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, uuid);
  std::memset(uuid, 0, sizeof *uuid);
  std::strncpy(uuid->bytes, found->device->model().slug, sizeof uuid->bytes - 1);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

HEADNORM_DRIVER_EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, bytes);
  *bytes = found->device->model().memory_bytes;
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) { return cuDeviceTotalMem_v2(bytes, device); }

HEADNORM_DRIVER_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, value);
  *value = attribute_of(found->device->model(), attribute, device);
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, major);
  if (minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = found->device->model().sm / 10;
  *minor = found->device->model().sm % 10;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  HEADNORM_DRIVER_DEVICE(found, device, can);
  if (find_device(peer) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *can = 0;
  return CUDA_SUCCESS;
}

// ---- contexts ----
HEADNORM_DRIVER_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, context);
  if (found->primary == nullptr) found->primary = make_context(device);
  ++found->primary_uses;
  *context = reinterpret_cast<CUcontext>(found->primary.get());
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, &device);
  if (found->primary_uses == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--found->primary_uses == 0) found->primary.reset();
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

HEADNORM_DRIVER_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, &device);
  found->primary.reset();
  found->primary_uses = 0;
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

HEADNORM_DRIVER_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  HEADNORM_DRIVER_DEVICE(found, device, &device);
  found->primary_flags = flags;
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

HEADNORM_DRIVER_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  HEADNORM_DRIVER_DEVICE(found, device, active);
  if (flags != nullptr) *flags = found->primary_flags;
  *active = found->primary != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned int, CUdevice device) {
  HEADNORM_DRIVER_DEVICE(found, device, context);
  auto made = make_context(device);
  *context = reinterpret_cast<CUcontext>(made.get());
  context_stack().push_back(made.get());
  driver().contexts.insert(std::move(made));
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v2(context, flags, device);
}

HEADNORM_DRIVER_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  const std::lock_guard guard(driver().lock);
  if (!contains(driver().contexts, context)) return CUDA_ERROR_INVALID_CONTEXT;
  std::erase(context_stack(), reinterpret_cast<DriverContext*>(context));
  erase(driver().contexts, context);
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }

HEADNORM_DRIVER_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = context_stack().empty() ? nullptr : reinterpret_cast<CUcontext>(context_stack().back());
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  std::vector<DriverContext*>& stack = context_stack();
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(reinterpret_cast<DriverContext*>(context));
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(reinterpret_cast<DriverContext*>(context));
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }

HEADNORM_DRIVER_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = reinterpret_cast<CUcontext>(context_stack().back());
  context_stack().pop_back();
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) { return cuCtxPopCurrent_v2(context); }

HEADNORM_DRIVER_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  const DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuCtxSynchronize() {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (is_capture_strict()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  result = finish(*context);
  device_of(*context).settle();
  return result;
}

HEADNORM_DRIVER_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuCtxGetApiVersion(CUcontext, unsigned int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}
