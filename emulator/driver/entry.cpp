// cuGetProcAddress: the names of the API to the functions of this library.
#include <dlfcn.h>

#include <string>

#include "emulator/driver/cuda_api.h"

namespace {

// This library itself, in whatever way it was loaded.
void* own_handle() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_handle), &info) == 0) return nullptr;
  return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

// The newest form of a name: "cuMemAlloc" is cuMemAlloc_v2. From CUDA 12 on, cuGraphInstantiate has another signature.
void* find(const std::string& name, int version) {
  static void* const kHandle = own_handle();
  if (kHandle == nullptr) return nullptr;
  constexpr int kCuda12 = 12000;
  if (name == "cuGraphInstantiate" && version >= kCuda12) return dlsym(kHandle, "cuGraphInstantiateWithFlags");
  void* newest = dlsym(kHandle, (name + "_v2").c_str());
  return newest != nullptr ? newest : dlsym(kHandle, name.c_str());
}

}  // namespace

HEADNORM_DRIVER_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t, int* status) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = find(name, version);
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
HEADNORM_DRIVER_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
