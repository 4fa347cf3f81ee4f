#include <dlfcn.h>
#include <headnorm/generator/generator.h>
#include <headnorm/headnorm.h>

#include <cstdio>
#include <vector>

// A program with the CUDA toolkit includes <cuda.h> and calls these functions by their names.
template <class... A>
void driver(const char* library, const char* name, A... arguments) {
  const auto function = reinterpret_cast<int (*)(A...)>(::dlsym(::dlopen(library, RTLD_NOW), name));
  if (const int status = function(arguments...); status != 0) std::fprintf(stderr, "%s: %d\n", name, status);
}

int fail(const headnorm::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.message.c_str(), error.remedy.c_str());
  return 1;
}

// usage: graph [LIBRARY]     (of the CUDA driver)
int main(int argc, char** argv) {
  const char* const library = argc > 1 ? argv[1] : "libcuda.so.1";
  const auto device = headnorm::make_cuda_device({.library = library}, 0);
  if (!device) return fail(device.error());
  const auto compiler = headnorm::make_llvm_backend();
  headnorm::Runtime runtime(**device, nullptr, compiler.get());
  const auto spec = headnorm::parse_spec("width=256,head_size=64,x=f32,y=f32,weight=none,eps=1e-06");
  if (!spec) return fail(spec.error());

  // The caller's own context and stream, as the CUDA runtime or PyTorch has them.
  void *context = nullptr, *stream = nullptr, *graph = nullptr, *executable = nullptr;
  driver(library, "cuDevicePrimaryCtxRetain", &context, 0);
  driver(library, "cuCtxSetCurrent", context);
  driver(library, "cuStreamCreate", &stream, 1u);

  std::vector<float> values(4 * 256, 3.0f);
  const std::size_t bytes = values.size() * sizeof(float);
  const auto x = (*device)->allocate(bytes), y = (*device)->allocate(bytes);
  if (!x || !y) return fail((x ? y : x).error());
  if (const auto in = (*device)->copy_in(x->address(), values.data(), bytes); !in) return fail(in.error());
  headnorm::LaunchArguments arguments;
  arguments.rows = 4;
  arguments.stream = stream;
  arguments.address(headnorm::Operand::x) = x->address();
  arguments.address(headnorm::Operand::y) = y->address();
  arguments.stride(headnorm::Operand::x) = arguments.stride(headnorm::Operand::y) = 256;

  // Loading a kernel would spoil a capture: prepare() first.
  if (const auto prepared = runtime.prepare(*spec, arguments); !prepared) return fail(prepared.error());
  driver(library, "cuStreamBeginCapture_v2", stream, 0);
  const auto captured = runtime.run(*spec, arguments);
  driver(library, "cuStreamEndCapture", stream, &graph);
  if (!captured) return fail(captured.error());

  driver(library, "cuGraphInstantiateWithFlags", &executable, graph, 0ull);
  driver(library, "cuGraphLaunch", executable, stream);
  driver(library, "cuStreamSynchronize", stream);
  if (const auto out = (*device)->copy_out(values.data(), y->address(), bytes); !out) return fail(out.error());
  std::printf("%s: y[0] = %.6f\n", (*device)->info().name.c_str(), values[0]);
}
