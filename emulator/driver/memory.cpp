// Memory of devices and pinned memory of the host; copies and fills, now or in a stream.
#include <cstring>

#include "emulator/driver/state.h"

using namespace headnorm::emulator::driver;
using headnorm::emulator::Device;

namespace {

// The device of the allocation that holds an address, or null.
Device* owner_of(CUdeviceptr address) {
  for (DriverDevice& device : driver().devices) {
    if (device.device->find_allocation(address).second != 0) return device.device.get();
  }
  return nullptr;
}

CUresult copy_in(CUdeviceptr to, const void* from, std::size_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  Device* device = owner_of(to);
  return device != nullptr && device->write(to, from, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_out(void* to, CUdeviceptr from, std::size_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  const Device* device = owner_of(from);
  return device != nullptr && device->read(to, from, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_across(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  Device *target = owner_of(to), *source = owner_of(from);
  if (target == nullptr || source == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (target == source) return target->copy(to, from, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  std::vector<char> between(bytes);
  return source->read(between.data(), from, bytes) && target->write(to, between.data(), bytes) ? CUDA_SUCCESS
                                                                                               : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_any(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  const bool is_to_device = owner_of(to) != nullptr, is_from_device = owner_of(from) != nullptr;
  if (is_to_device && is_from_device) return copy_across(to, from, bytes);
  if (is_to_device) return copy_in(to, reinterpret_cast<const void*>(from), bytes);
  if (is_from_device) return copy_out(reinterpret_cast<void*>(to), from, bytes);
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

template <class T>
CUresult fill(CUdeviceptr to, T value, std::size_t count) {
  const std::vector<T> values(count, value);
  return to % sizeof(T) != 0 ? CUDA_ERROR_INVALID_VALUE : copy_in(to, values.data(), count * sizeof(T));
}

// In a stream, or, where there is none to name, in the null stream and waited for.
CUresult in_stream(CUstream handle, Work work) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  DriverStream* stream = find_stream(*context, handle);
  return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : submit(*stream, std::move(work));
}

CUresult at_once(Work work) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (is_capture_strict()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  result = submit(context->null_stream, std::move(work));
  const CUresult finished = finish(context->null_stream);
  return result == CUDA_SUCCESS ? finished : result;
}

}  // namespace

HEADNORM_DRIVER_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_capture_strict()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *address = device_of(*context).allocate(bytes);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) { return cuMemAlloc_v2(address, bytes); }

// Waits for all work of the context, as freeing does.
HEADNORM_DRIVER_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (address == 0) return CUDA_SUCCESS;
  if (is_capture_strict()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  finish(*context);
  Device* device = owner_of(address);
  return device != nullptr && device->release(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
HEADNORM_DRIVER_EXPORT CUresult cuMemFree(CUdeviceptr address) { return cuMemFree_v2(address); }

HEADNORM_DRIVER_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream) {
  return cuMemAlloc_v2(address, bytes);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return in_stream(stream, [address] {
    Device* device = owner_of(address);
    return device != nullptr && device->release(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

HEADNORM_DRIVER_EXPORT CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  const DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *total = device_of(*context).model().memory_bytes;
  *free = *total - device_of(*context).used_bytes();
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) { return cuMemGetInfo_v2(free, total); }

HEADNORM_DRIVER_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const std::lock_guard guard(driver().lock);
  const Device* device = owner_of(address);
  if (device == nullptr) return CUDA_ERROR_NOT_FOUND;
  const auto [start, size] = device->find_allocation(address);
  if (base != nullptr) *base = start;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  return cuMemGetAddressRange_v2(base, bytes, address);
}

HEADNORM_DRIVER_EXPORT CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned int) {
  const std::lock_guard guard(driver().lock);
  if (memory == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<char[]>(bytes);
  *memory = made.get();
  driver().host_memory[*memory] = std::move(made);
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuMemAllocHost_v2(void** memory, std::size_t bytes) { return cuMemHostAlloc(memory, bytes, 0); }
HEADNORM_DRIVER_EXPORT CUresult cuMemAllocHost(void** memory, std::size_t bytes) { return cuMemHostAlloc(memory, bytes, 0); }
HEADNORM_DRIVER_EXPORT CUresult cuMemFreeHost(void* memory) {
  const std::lock_guard guard(driver().lock);
  return driver().host_memory.erase(memory) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

HEADNORM_DRIVER_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return at_once([=] { return copy_in(to, from, bytes); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  return cuMemcpyHtoD_v2(to, from, bytes);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return at_once([=] { return copy_out(to, from, bytes); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  return cuMemcpyDtoH_v2(to, from, bytes);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return at_once([=] { return copy_across(to, from, bytes); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return cuMemcpyDtoD_v2(to, from, bytes);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return at_once([=] { return copy_any(to, from, bytes); });
}

HEADNORM_DRIVER_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return in_stream(stream, [=] { return copy_in(to, from, bytes); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return in_stream(stream, [=] { return copy_out(to, from, bytes); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, stream);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return in_stream(stream, [=] { return copy_across(to, from, bytes); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return in_stream(stream, [=] { return copy_any(to, from, bytes); });
}

HEADNORM_DRIVER_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count) {
  return at_once([=] { return fill(to, value, count); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t count) {
  return cuMemsetD8_v2(to, value, count);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, std::size_t count) {
  return at_once([=] { return fill(to, value, count); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, std::size_t count) {
  return cuMemsetD16_v2(to, value, count);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, std::size_t count) {
  return at_once([=] { return fill(to, value, count); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemsetD32(CUdeviceptr to, unsigned int value, std::size_t count) {
  return cuMemsetD32_v2(to, value, count);
}
HEADNORM_DRIVER_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return in_stream(stream, [=] { return fill(to, value, count); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
  return in_stream(stream, [=] { return fill(to, value, count); });
}
HEADNORM_DRIVER_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, std::size_t count, CUstream stream) {
  return in_stream(stream, [=] { return fill(to, value, count); });
}
