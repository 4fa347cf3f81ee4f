// Modules from PTX, with the logs of the translation; functions and their attributes.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "emulator/driver/state.h"

using namespace headnorm::emulator::driver;
using headnorm::emulator::DeviceModel;

namespace {

// Where a caller wants the texts of a translation.
struct Logs {
  char* error = nullptr;
  std::size_t error_bytes = 0;
  void** error_used = nullptr;  // the option's value gives the length back
};

Logs find_logs(unsigned int count, const CUjit_option* options, void** values) {
  Logs logs;
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) logs.error = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      logs.error_bytes = reinterpret_cast<std::uintptr_t>(values[i]) & 0xffffffffu;
      logs.error_used = &values[i];
    }
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) values[i] = nullptr;
  }
  return logs;
}

void write_log(const Logs& logs, const std::string& text) {
  if (logs.error == nullptr || logs.error_bytes == 0) return;
  const std::size_t bytes = std::min(text.size(), logs.error_bytes - 1);
  std::memcpy(logs.error, text.data(), bytes);
  logs.error[bytes] = '\0';
  if (logs.error_used != nullptr) *logs.error_used = reinterpret_cast<void*>(bytes);
}

bool is_binary(const void* image) {
  constexpr unsigned char kElf[] = {0x7f, 'E', 'L', 'F'}, kFatbin[] = {0x50, 0xed, 0x55, 0xba};
  return std::memcmp(image, kElf, sizeof kElf) == 0 || std::memcmp(image, kFatbin, sizeof kFatbin) == 0;
}

CUresult result_of_refusal(const std::string& message) {
  if (message.find("newer than the driver") != std::string::npos) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  if (message.find("does not run on") != std::string::npos) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  return CUDA_ERROR_INVALID_PTX;
}

int attribute_of(const DriverFunction& function, const DeviceModel& model, CUfunction_attribute attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(function.facts.max_threads);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(function.facts.static_shared_bytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return static_cast<int>(function.facts.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return static_cast<int>(function.facts.registers);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return function.facts.ptx_version;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return model.sm;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return static_cast<int>(function.max_dynamic_shared_bytes);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return function.carveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      return function.facts.required_cluster.x != 0 ? 1 : 0;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      return static_cast<int>(function.facts.required_cluster.x);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      return static_cast<int>(function.facts.required_cluster.y);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return static_cast<int>(function.facts.required_cluster.z);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return function.allows_large_cluster;
    default:
      return 0;
  }
}

}  // namespace

HEADNORM_DRIVER_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count, CUjit_option* options,
                                                   void** values) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (is_capture_strict()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const Logs logs = find_logs(count, options, values);
  if (is_binary(image)) {
    write_log(logs, "this is an emulated device: it takes PTX, no compiled code");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  auto loaded = device_of(*context).load(static_cast<const char*>(image));
  if (!loaded.ok()) {
    write_log(logs, loaded.message());
    return result_of_refusal(loaded.message());
  }
  write_log(logs, "");
  auto made = std::make_unique<DriverModule>();
  made->context = context;
  made->module = *loaded;
  *module = reinterpret_cast<CUmodule>(made.get());
  context->modules.insert(std::move(made));
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
HEADNORM_DRIVER_EXPORT CUresult cuModuleLoadFatBinary(CUmodule*, const void*) { return CUDA_ERROR_NO_BINARY_FOR_GPU; }

HEADNORM_DRIVER_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::stringstream text;
  text << file.rdbuf();
  return cuModuleLoadData(module, text.str().c_str());
}

HEADNORM_DRIVER_EXPORT CUresult cuModuleUnload(CUmodule handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (!contains(context->modules, handle)) return CUDA_ERROR_INVALID_HANDLE;
  finish(*context);
  erase(context->modules, handle);
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!contains(context->modules, handle)) return CUDA_ERROR_INVALID_HANDLE;
  auto* module = reinterpret_cast<DriverModule*>(handle);
  if (!module->module->has_kernel(name)) return CUDA_ERROR_NOT_FOUND;
  std::unique_ptr<DriverFunction>& made = module->functions[name];
  if (made == nullptr) {
    made = std::make_unique<DriverFunction>();
    made->module = module;
    made->name = name;
    made->facts = module->module->facts(name);
    const std::uint64_t limit = device_of(*context).model().shared_per_block;
    made->max_dynamic_shared_bytes = limit - std::min(limit, made->facts.static_shared_bytes);
  }
  *function = reinterpret_cast<CUfunction>(made.get());
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule handle, const char* name) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (!contains(context->modules, handle)) return CUDA_ERROR_INVALID_HANDLE;
  const auto [start, size] = reinterpret_cast<DriverModule*>(handle)->module->find_variable(name);
  if (size == 0) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = start;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuModuleGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUmodule module, const char* name) {
  return cuModuleGetGlobal_v2(address, bytes, module, name);
}

HEADNORM_DRIVER_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  const std::lock_guard guard(driver().lock);
  if (value == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& function = *reinterpret_cast<DriverFunction*>(handle);
  *value = attribute_of(function, device_of(*function.module->context).model(), attribute);
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  const std::lock_guard guard(driver().lock);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto& function = *reinterpret_cast<DriverFunction*>(handle);
  const DeviceModel& model = device_of(*function.module->context).model();
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || static_cast<std::uint64_t>(value) + function.facts.static_shared_bytes > model.shared_per_block_optin)
      return CUDA_ERROR_INVALID_VALUE;
    function.max_dynamic_shared_bytes = static_cast<std::uint64_t>(value);
  } else if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    function.carveout = value;
  } else if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    function.allows_large_cluster = value;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, int) {
  return handle == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  if (module == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(reinterpret_cast<DriverFunction*>(handle)->module);
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuFuncGetName(const char** name, CUfunction handle) {
  if (name == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = reinterpret_cast<DriverFunction*>(handle)->name.c_str();
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  if (handle == nullptr || offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& parameters = reinterpret_cast<DriverFunction*>(handle)->facts.parameters;
  if (index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameters[index].offset;
  if (bytes != nullptr) *bytes = parameters[index].bytes;
  return CUDA_SUCCESS;
}
