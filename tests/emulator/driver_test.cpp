// The stand-in driver, opened as a program opens libcuda: its functions by name, a kernel from PTX, streams, events, a graph, and
// errors.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "emulator/driver/cuda_api.h"

namespace {

void* library() {
  static void* const kLibrary = [] {
    setenv("HEADNORM_EMULATOR_DEVICES", "h200,a100", 1);
    return dlopen(HEADNORM_DRIVER, RTLD_NOW | RTLD_LOCAL);
  }();
  return kLibrary;
}

// Calls a function of the driver by its name.
template <class... A>
CUresult call(const char* name, A... arguments) {
  void* function = library() == nullptr ? nullptr : dlsym(library(), name);
  if (function == nullptr) {
    ADD_FAILURE() << "the driver has no " << name;
    return CUDA_ERROR_UNKNOWN;
  }
  return reinterpret_cast<CUresult (*)(A...)>(function)(arguments...);
}

constexpr const char* kPtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 n)
{
.reg .b64 %d<4>; .reg .b32 %r<4>; .reg .pred %p;
ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, %r1; st.global.u32 [%d1], %r3;
ret;
}
)";

class Driver : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
    ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context, 0), CUDA_SUCCESS);
    ASSERT_EQ(call("cuCtxSetCurrent", context), CUDA_SUCCESS);
    ASSERT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(kPtx)), CUDA_SUCCESS);
    ASSERT_EQ(call("cuModuleGetFunction", &function, module, "add"), CUDA_SUCCESS);
    ASSERT_EQ(call("cuMemAlloc_v2", &memory, sizeof values), CUDA_SUCCESS);
    for (std::uint32_t i = 0; i < 64; ++i) values[i] = i;
    ASSERT_EQ(call("cuMemcpyHtoD_v2", memory, static_cast<const void*>(values), sizeof values), CUDA_SUCCESS);
  }
  void TearDown() override {
    call("cuCtxSetCurrent", static_cast<CUcontext>(nullptr));
    call("cuDevicePrimaryCtxReset_v2", 0);
  }

  CUresult launch(CUdeviceptr address, std::uint32_t number, unsigned int threads, CUstream stream) {
    void* parameters[] = {&address, &number};
    return call("cuLaunchKernel", function, 1u, 1u, 1u, threads, 1u, 1u, 0u, stream, static_cast<void**>(parameters),
                static_cast<void**>(nullptr));
  }
  void read() { ASSERT_EQ(call("cuMemcpyDtoH_v2", static_cast<void*>(values), memory, sizeof values), CUDA_SUCCESS); }

  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr memory = 0;
  std::uint32_t values[64] = {};
};

TEST_F(Driver, DevicesAreEmulatedOnes) {
  int count = 0, major = 0, version = 0;
  char name[100];
  EXPECT_EQ(call("cuDeviceGetCount", &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(call("cuDeviceGetAttribute", &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1), CUDA_SUCCESS);
  EXPECT_EQ(major, 8);
  EXPECT_EQ(call("cuDeviceGetName", static_cast<char*>(name), 100, 0), CUDA_SUCCESS);
  EXPECT_NE(std::string(name).find("(emulated)"), std::string::npos);
  EXPECT_EQ(call("cuDeviceGetName", static_cast<char*>(name), 100, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(call("cuDriverGetVersion", &version), CUDA_SUCCESS);
  EXPECT_EQ(version, 13000);
}

TEST_F(Driver, NamesLeadToTheNewestForm) {
  void *found = nullptr, *none = nullptr;
  int status = -1;
  EXPECT_EQ(call("cuGetProcAddress_v2", "cuMemAlloc", &found, 13000, std::uint64_t{0}, &status), CUDA_SUCCESS);
  EXPECT_EQ(found, dlsym(library(), "cuMemAlloc_v2"));
  EXPECT_EQ(call("cuGetProcAddress_v2", "cuNothing", &none, 13000, std::uint64_t{0}, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(none, nullptr);
  const char* text = nullptr;
  EXPECT_EQ(call("cuGetErrorName", CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(Driver, LaunchesInStreamsWithEvents) {
  CUstream stream = nullptr;
  CUevent begin = nullptr, end = nullptr;
  float milliseconds = 0;
  ASSERT_EQ(call("cuStreamCreate", &stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(call("cuEventCreate", &begin, 0u), CUDA_SUCCESS);
  ASSERT_EQ(call("cuEventCreate", &end, 0u), CUDA_SUCCESS);
  EXPECT_EQ(call("cuEventRecord", begin, stream), CUDA_SUCCESS);
  EXPECT_EQ(launch(memory, 5, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(call("cuEventRecord", end, stream), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream), CUDA_SUCCESS);
  EXPECT_EQ(call("cuEventElapsedTime", &milliseconds, begin, end), CUDA_SUCCESS);
  EXPECT_GT(milliseconds, 0);
  read();
  EXPECT_EQ(values[63], 68u);
}

TEST_F(Driver, QueuedStreamsDoNothingBeforeSomebodyWaits) {
  const char* streams = std::getenv("HEADNORM_EMULATOR_STREAMS");
  const bool is_queued = streams != nullptr && std::strcmp(streams, "queued") == 0;
  CUstream stream = nullptr;
  ASSERT_EQ(call("cuStreamCreate", &stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(launch(memory, 5, 64, stream), CUDA_SUCCESS);
  read();  // by the null stream, which does not wait for this one
  EXPECT_EQ(values[0], is_queued ? 0u : 5u);
  EXPECT_EQ(call("cuStreamQuery", stream), is_queued ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream), CUDA_SUCCESS);
  read();
  EXPECT_EQ(values[0], 5u);
}

TEST_F(Driver, ContextsThatHaveEndedAreNoLongerCurrent) {
  ASSERT_EQ(call("cuDevicePrimaryCtxReset_v2", 0), CUDA_SUCCESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(call("cuMemAlloc_v2", &other, std::size_t{16}), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Driver, GraphsReplayWhatWasCaptured) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUdeviceptr other = 0;
  ASSERT_EQ(call("cuStreamCreate", &stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(call("cuStreamBeginCapture_v2", stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(launch(memory, 1, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(launch(memory, 2, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemAlloc_v2", &other, std::size_t{16}), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUmodule loaded = nullptr;
  EXPECT_EQ(call("cuModuleLoadData", &loaded, static_cast<const void*>(kPtx)), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_EQ(call("cuStreamEndCapture", stream, &graph), CUDA_SUCCESS);
  read();
  EXPECT_EQ(values[0], 0u) << "capturing runs nothing";
  ASSERT_EQ(call("cuGraphInstantiateWithFlags", &executable, graph, 0ull), CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call("cuGraphLaunch", executable, stream), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream), CUDA_SUCCESS);
  read();
  EXPECT_EQ(values[0], 9u);
}

TEST_F(Driver, FaultsStayWithTheContext) {
  EXPECT_EQ(launch(memory + 4, 1, 64, nullptr), CUDA_SUCCESS) << "a fault shows later";
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(launch(memory, 1, 64, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(call("cuMemAlloc_v2", &other, std::size_t{16}), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUcontext second = nullptr;
  ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &second, 1), CUDA_SUCCESS);
  ASSERT_EQ(call("cuCtxSetCurrent", second), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemAlloc_v2", &other, std::size_t{16}), CUDA_SUCCESS) << "another context works on";
}

TEST_F(Driver, MisalignedAccessesAreErrorsOfTheirOwn) {
  EXPECT_EQ(launch(memory + 2, 1, 32, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST_F(Driver, LaunchesPastTheLimitsAreRefused) {
  EXPECT_EQ(launch(memory, 1, 1025, nullptr), CUDA_ERROR_INVALID_VALUE);
  void* parameters[] = {&memory, &values};
  EXPECT_EQ(call("cuLaunchKernel", function, 1u, 1u, 1u, 32u, 1u, 1u, 49153u, static_cast<CUstream>(nullptr),
                 static_cast<void**>(parameters), static_cast<void**>(nullptr)),
            CUDA_ERROR_INVALID_VALUE)
      << "more than 48 KB are asked for first";
  EXPECT_EQ(call("cuFuncSetAttribute", function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000), CUDA_SUCCESS);
  EXPECT_EQ(call("cuLaunchKernel", function, 1u, 1u, 1u, 32u, 1u, 1u, 49153u, static_cast<CUstream>(nullptr),
                 static_cast<void**>(parameters), static_cast<void**>(nullptr)),
            CUDA_SUCCESS);
  EXPECT_EQ(call("cuFuncSetAttribute", function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, RefusedModulesSayWhy) {
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* option_values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule loaded = nullptr;
  const auto load = [&](const char* image) {
    option_values[1] = reinterpret_cast<void*>(sizeof log);
    return call("cuModuleLoadDataEx", &loaded, static_cast<const void*>(image), 2u, static_cast<CUjit_option*>(options),
                static_cast<void**>(option_values));
  };
  EXPECT_EQ(load("\x7f"
                 "ELF and more"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(load(".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\nfrobnicate;\nret;\n}\n"), CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(std::string(log).find("line 6"), std::string::npos) << log;
  EXPECT_EQ(load(".version 9.9\n.target sm_80\n.address_size 64\n"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(load(".version 8.0\n.target sm_120\n.address_size 64\n"), CUDA_ERROR_NO_BINARY_FOR_GPU);
  CUfunction missing = nullptr;
  EXPECT_EQ(call("cuModuleGetFunction", &missing, module, "subtract"), CUDA_ERROR_NOT_FOUND);
}

}  // namespace
