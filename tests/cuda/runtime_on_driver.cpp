// The few functions of CUDA's runtime library that a generated file needs, on the driver library that HEADNORM_TEST_DRIVER names:
// the self-test of such a file runs on an emulated GPU. The kernel is the one in the PTX file that HEADNORM_TEST_PTX names.
// Compiled by nvcc together with the file, which is linked without CUDA's own runtime library.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace {

struct Dim3 {
  unsigned x, y, z;
};

struct Driver {
  void* library = dlopen(std::getenv("HEADNORM_TEST_DRIVER"), RTLD_NOW);
  void* module = nullptr;
  std::map<const void*, std::string> names;  // of kernels, by their host function
  std::map<std::string, void*> functions;

  template <class... Arguments>
  int call(const char* name, Arguments... arguments) {
    void* function = library == nullptr ? nullptr : dlsym(library, name);
    if (function == nullptr) {
      std::fprintf(stderr, "no %s in the driver\n", name);
      std::exit(3);
    }
    return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
  }

  void start() {
    if (module != nullptr) return;
    std::ostringstream ptx;
    ptx << std::ifstream(std::getenv("HEADNORM_TEST_PTX")).rdbuf();
    const std::string text = ptx.str();
    void* context = nullptr;
    int status = call("cuInit", 0u);
    if (status == 0) status = call("cuDevicePrimaryCtxRetain", &context, 0);
    if (status == 0) status = call("cuCtxSetCurrent", context);
    if (status == 0) status = call("cuModuleLoadData", &module, static_cast<const void*>(text.c_str()));
    if (status == 0) return;
    std::fprintf(stderr, "the driver does not start: %d\n", status);
    std::exit(3);
  }

  void* function_of(const void* host_function) {
    start();
    void*& function = functions[names[host_function]];
    if (function == nullptr && call("cuModuleGetFunction", &function, module, names[host_function].c_str()) != 0) std::exit(3);
    return function;
  }
};

Driver& driver() {
  static Driver instance;
  return instance;
}

struct Launch {
  Dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
} next_launch;

struct RuntimeLaunch {
  Dim3 grid, block;
  std::size_t shared_bytes;
  void *stream, *attributes;
  unsigned attribute_count;
};
struct DriverLaunch {
  Dim3 grid, block;
  unsigned shared_bytes;
  void *stream, *attributes;
  unsigned attribute_count;
};

int last_error = 0;

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) { return nullptr; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, void*, void*, void*, void*, int*) {
  driver().names[host_function] = name;
}

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes, void* stream) {
  next_launch = {grid, block, shared_bytes, stream};
  return 0;
}
int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared_bytes, void* stream) {
  *grid = next_launch.grid;
  *block = next_launch.block;
  *shared_bytes = next_launch.shared_bytes;
  *static_cast<void**>(stream) = next_launch.stream;
  return 0;
}
int __cudaGetKernel(void** kernel, const void* host_function) {
  *kernel = driver().function_of(host_function);
  return 0;
}
int __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared_bytes, void* stream) {
  last_error = driver().call("cuLaunchKernel", kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                             static_cast<unsigned>(shared_bytes), stream, arguments, static_cast<void**>(nullptr));
  return last_error;
}
int cudaLaunchKernel(const void* host_function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared_bytes, void* stream) {
  return __cudaLaunchKernel(driver().function_of(host_function), grid, block, arguments, shared_bytes, stream);
}

// The attributes of both interfaces are laid out alike.
int cudaLaunchKernelExC(const RuntimeLaunch* launch, const void* host_function, void** arguments) {
  const DriverLaunch of_driver{launch->grid,   launch->block,      static_cast<unsigned>(launch->shared_bytes),
                               launch->stream, launch->attributes, launch->attribute_count};
  last_error =
      driver().call("cuLaunchKernelEx", &of_driver, driver().function_of(host_function), arguments, static_cast<void**>(nullptr));
  return last_error;
}

int cudaMalloc(void** address, std::size_t bytes) {
  driver().start();
  return driver().call("cuMemAlloc_v2", address, bytes);
}
int cudaFree(void* address) { return driver().call("cuMemFree_v2", address); }
int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  if (kind == 1) return driver().call("cuMemcpyHtoD_v2", to, from, bytes);
  return driver().call("cuMemcpyDtoH_v2", to, from, bytes);
}
int cudaDeviceSynchronize() { return driver().call("cuCtxSynchronize"); }
int cudaGetLastError() { return last_error; }
const char* cudaGetErrorString(int error) {
  static std::string text;
  text = "error " + std::to_string(error);
  return text.c_str();
}

int cudaFuncSetAttribute(const void* host_function, int attribute, int value) {
  return driver().call("cuFuncSetAttribute", driver().function_of(host_function), attribute, value);
}
int cudaGetDevice(int* device) {
  *device = 0;
  return 0;
}
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  driver().start();
  return driver().call("cuDeviceGetAttribute", value, attribute, device);
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host_function, int threads, std::size_t bytes,
                                                           unsigned) {
  return driver().call("cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks, driver().function_of(host_function), threads, bytes);
}

}  // extern "C"
