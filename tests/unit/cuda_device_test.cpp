// The CUDA device on a driver that answers as it is told: contexts, ownership, limits, errors and streams. What kernels compute is
// not here.
#include "runtime/cuda/cuda_device.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "runtime/cuda/driver.h"
#include "runtime/runtime.h"
#include "tests/fixtures/fake_backend.h"
#include "tests/fixtures/fake_driver.h"

namespace headnorm {
namespace {

using fixtures::FakeDriver;

const CudaDriverOptions kFake{HEADNORM_FAKE_DRIVER, "cuda", {}, {}};

KernelSpec small_spec() {
  KernelSpec spec;
  spec.width = 512;
  spec.head_size = 256;
  return spec;
}

Plan plan_for(const Target& target) { return *make_plan(small_spec(), default_schedule(small_spec(), target), target); }

Artifact artifact_for(const Plan& plan) {
  return {.kind = ArtifactKind::ptx, .entry = entry_name(plan), .bytes = ".version 7.8", .key = "", .backend = "fake"};
}

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* library = ::dlopen(HEADNORM_FAKE_DRIVER, RTLD_NOW);
    ASSERT_NE(library, nullptr);
    driver_ = reinterpret_cast<FakeDriver* (*)()>(::dlsym(library, "fake_driver"))();
    *driver_ = FakeDriver();
    // As PyTorch would have it: a context of the caller's is current.
    driver_->current = {&callers_};
    auto device = make_cuda_device(kFake, 0);
    ASSERT_TRUE(device.ok()) << device.error().message;
    device_ = std::move(*device);
  }

  void TearDown() override {
    device_.reset();
    EXPECT_EQ(driver_->current, std::vector<void*>{&callers_});
    EXPECT_EQ(driver_->calls_without_context, 0);
    EXPECT_EQ(driver_->primary_retained, 0);
    EXPECT_EQ(driver_->modules, 0);
    EXPECT_EQ(driver_->streams, 0);
    EXPECT_EQ(driver_->events, 0);
    EXPECT_TRUE(driver_->allocations.empty());
  }

  LaunchArguments arguments(std::int64_t rows) {
    const Plan plan = plan_for(device_->info().target);
    LaunchArguments a;
    a.rows = rows;
    // Never touched: far apart, aligned to whatever a schedule asks for.
    a.address(Operand::x) = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
    a.address(Operand::gamma) = reinterpret_cast<void*>(std::uintptr_t{1} << 20);
    a.address(Operand::y) = reinterpret_cast<void*>(std::uintptr_t{1} << 50);
    a.stride(Operand::x) = a.stride(Operand::y) = plan.spec.width;
    return a;
  }

  std::shared_ptr<const LoadedKernel> load() {
    const Plan plan = plan_for(device_->info().target);
    auto kernel = device_->load(artifact_for(plan), plan);
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    driver_->parameter_count = static_cast<unsigned>(launch_parameters(plan.spec).size());
    return *kernel;
  }

  int callers_ = 0;
  FakeDriver* driver_ = nullptr;
  std::unique_ptr<Device> device_;
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.kind, "cuda");
  EXPECT_EQ(info.id, "cuda:0");
  EXPECT_EQ(info.name, "Fake GPU");
  EXPECT_EQ(info.driver, "12.8");
  EXPECT_EQ(info.units, 132);
  EXPECT_EQ(to_text(info.target), "sm_90+ptx80");
  const auto devices = list_cuda_devices(kFake);
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[1].id, "cuda:1");
  EXPECT_EQ((*devices)[1].name, "Other GPU");
}

TEST(CudaTarget, IsTheNewestThatDeviceAndDriverTake) {
  const struct {
    int capability, driver;
    const char* target;
  } kCases[] = {{80, 12080, "sm_80+ptx74"}, {80, 11030, "sm_80"},       {87, 12080, "sm_86+ptx74"}, {90, 12080, "sm_90+ptx80"},
                {90, 11080, "sm_90"},       {90, 11070, "sm_86+ptx74"}, {103, 12080, "sm_100"},     {100, 12090, "sm_100+ptx88"},
                {120, 12080, "sm_120"},     {120, 12060, "sm_90+ptx80"}};
  for (const auto& c : kCases) {
    const std::optional<Target> target = cuda::best_target(c.capability, c.driver);
    ASSERT_TRUE(target);
    EXPECT_EQ(to_text(*target), c.target) << c.capability << " " << c.driver;
  }
  EXPECT_FALSE(cuda::best_target(75, 12080));
  EXPECT_FALSE(cuda::best_target(80, 10020));
}

TEST_F(CudaDeviceTest, AGpuTooOldIsSaid) {
  driver_->capability = 75;
  const auto device = make_cuda_device(kFake, 0);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().kind, ErrorKind::environment);
  EXPECT_NE(device.error().message.find("sm_75"), std::string::npos) << device.error().message;
}

TEST_F(CudaDeviceTest, NewestPtxOfADriver) {
  EXPECT_EQ(cuda::newest_ptx(11080), 78);
  EXPECT_EQ(cuda::newest_ptx(12060), 85);
  EXPECT_EQ(cuda::newest_ptx(12080), 87);
  EXPECT_EQ(cuda::newest_ptx(13000), 90);
  EXPECT_EQ(cuda::newest_ptx(10020), 0);
}

TEST_F(CudaDeviceTest, NoSuchDeviceIsSaidWithWhatThereIs) {
  for (int ordinal : {-1, 2}) {
    const auto device = make_cuda_device(kFake, ordinal);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.error().kind, ErrorKind::user);
    EXPECT_NE(device.error().remedy.find("cuda:0 to cuda:1"), std::string::npos) << device.error().remedy;
  }
}

TEST_F(CudaDeviceTest, ALibraryThatIsNoDriverIsSaid) {
  for (const char* library : {"libheadnorm_no_such_driver.so", "libm.so.6"}) {
    const auto device = make_cuda_device({library, "cuda"}, 0);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.error().kind, ErrorKind::environment);
    EXPECT_NE(device.error().message.find(library), std::string::npos) << device.error().message;
    EXPECT_FALSE(device.error().remedy.empty());
  }
}

// Whatever the driver refuses: the error names call, code and description, nothing leaks and the caller's context stays.
TEST_F(CudaDeviceTest, FailuresOfMakingNameTheCall) {
  for (const char* function : {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute",
                               "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuStreamCreate"}) {
    driver_->fail = {{function, 999}};
    const auto device = make_cuda_device(kFake, 1);
    ASSERT_FALSE(device.ok()) << function;
    EXPECT_EQ(device.error().kind, ErrorKind::environment);
    const std::string stem = std::string(function).substr(0, std::string(function).find("_v2"));
    EXPECT_NE(device.error().message.find(stem), std::string::npos) << device.error().message;
    EXPECT_NE(device.error().message.find("999"), std::string::npos) << device.error().message;
    driver_->fail.clear();
    EXPECT_EQ(driver_->primary_retained, 1) << function;
  }
}

TEST_F(CudaDeviceTest, MemoryThatIsNotThereIsSaid) {
  const auto buffer = device_->allocate(std::size_t{1} << 41);
  ASSERT_FALSE(buffer.ok());
  EXPECT_NE(buffer.error().message.find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << buffer.error().message;
  EXPECT_NE(buffer.error().message.find("2199023255552 bytes"), std::string::npos) << buffer.error().message;
}

TEST_F(CudaDeviceTest, BuffersFreeThemselvesAlsoAfterTheDevice) {
  Buffer kept;
  {
    auto buffer = device_->allocate(100);
    ASSERT_TRUE(buffer.ok());
    kept = std::move(*buffer);
  }
  EXPECT_EQ(driver_->allocations.size(), 1u);
  device_.reset();
  EXPECT_EQ(driver_->primary_retained, 1);
  kept = Buffer();
  EXPECT_TRUE(driver_->allocations.empty());
}

TEST_F(CudaDeviceTest, TheCompilersLogIsInTheError) {
  driver_->fail = {{"cuModuleLoadDataEx", 218}};
  driver_->jit_log = "ptxas application ptx input, line 7; error: Unknown opcode\n";
  const Plan plan = plan_for(device_->info().target);
  const auto kernel = device_->load(artifact_for(plan), plan);
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("line 7; error: Unknown opcode"), std::string::npos) << kernel.error().message;
}

TEST_F(CudaDeviceTest, RefusesKernelsOfOtherTargets) {
  const Plan newer = plan_for(make_gpu_target(100));
  const auto kernel = device_->load(artifact_for(newer), newer);
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("sm_100"), std::string::npos) << kernel.error().message;
  EXPECT_NE(kernel.error().message.find("sm_90"), std::string::npos) << kernel.error().message;
  const Plan older = plan_for(make_gpu_target(80));
  EXPECT_TRUE(device_->load(artifact_for(older), older).ok());
}

TEST_F(CudaDeviceTest, PtxNewerThanTheDriverIsRefusedWithBothVersions) {
  Target newer = device_->info().target;
  newer.ptx = 90;
  const Plan plan = plan_for(newer);
  const auto kernel = device_->load(artifact_for(plan), plan);
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("PTX 9.0"), std::string::npos) << kernel.error().message;
  EXPECT_NE(kernel.error().message.find("PTX 8.7"), std::string::npos) << kernel.error().message;
  EXPECT_NE(kernel.error().remedy.find(to_text(device_->info().target)), std::string::npos) << kernel.error().remedy;
}

// The compiled kernel's own limits are asked for, not only the plan's.
TEST_F(CudaDeviceTest, RefusesBlocksThatTheFunctionCannotHave) {
  const Plan plan = plan_for(device_->info().target);
  driver_->max_threads_of_function = plan.gpu().block_threads - 1;
  const auto threads = device_->load(artifact_for(plan), plan);
  ASSERT_FALSE(threads.ok());
  EXPECT_NE(threads.error().message.find(std::to_string(plan.gpu().block_threads)), std::string::npos) << threads.error().message;
  driver_->max_threads_of_function = 1024;
  driver_->shared_bytes_of_function = 300000;
  const auto shared = device_->load(artifact_for(plan), plan);
  ASSERT_FALSE(shared.ok());
  EXPECT_NE(shared.error().message.find("300000 bytes of shared memory"), std::string::npos) << shared.error().message;
}

// By registers and shared memory together: each alone may be within its limit.
TEST_F(CudaDeviceTest, RefusesAKernelOfWhichTheDeviceHoldsNoBlock) {
  const Plan plan = plan_for(device_->info().target);
  driver_->occupancy_blocks = 0;
  const auto kernel = device_->load(artifact_for(plan), plan);
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("holds no block"), std::string::npos) << kernel.error().message;
  EXPECT_NE(kernel.error().message.find(to_text(plan.schedule)), std::string::npos) << kernel.error().message;
  EXPECT_EQ(driver_->modules, 0);
}

TEST_F(CudaDeviceTest, LaunchesOnTheStreamGivenWithParametersInOrder) {
  const auto kernel = load();
  LaunchArguments a = arguments(10);
  int stream = 0;
  a.stream = &stream;
  ASSERT_TRUE(device_->launch(*kernel, a).ok());
  a.stream = nullptr;
  ASSERT_TRUE(device_->launch(*kernel, a).ok());
  ASSERT_EQ(driver_->launches.size(), 2u);
  EXPECT_EQ(driver_->launches[0].stream, &stream);
  EXPECT_NE(driver_->launches[1].stream, nullptr);
  EXPECT_NE(driver_->launches[1].stream, &stream);
  const std::vector<std::uint64_t> expected = {
      std::uint64_t{1} << 40, std::uint64_t{1} << 20, std::uint64_t{1} << 50, 512, 512, 10};
  EXPECT_EQ(driver_->launches[0].parameters, expected);
  EXPECT_EQ(driver_->launches[0].block, static_cast<unsigned>(kernel->plan().gpu().block_threads));
}

TEST_F(CudaDeviceTest, RowsPastAGridAreSeveralLaunches) {
  const auto kernel = load();
  const std::int64_t most = kernel->plan().gpu().max_rows_per_launch;
  LaunchArguments a = arguments(most + 3);
  a.address(Operand::x) = reinterpret_cast<void*>(std::uintptr_t{1} << 50);
  a.address(Operand::y) = reinterpret_cast<void*>(std::uintptr_t{1} << 54);
  ASSERT_TRUE(device_->launch(*kernel, a).ok());
  ASSERT_EQ(driver_->launches.size(), 2u);
  EXPECT_EQ(driver_->launches[0].parameters.back(), static_cast<std::uint64_t>(most));
  EXPECT_EQ(driver_->launches[1].parameters.back(), 3u);
  EXPECT_EQ(driver_->launches[1].parameters[0], (std::uint64_t{1} << 50) + static_cast<std::uint64_t>(most) * 512 * 2);
  EXPECT_EQ(driver_->launches[1].parameters[1], driver_->launches[0].parameters[1]);  // gamma
}

TEST_F(CudaDeviceTest, ClustersAndDependentLaunchesAreAttributesOfTheLaunch) {
  const auto plan_of = [&](const char* schedule) {
    return *make_plan(*parse_spec("width=2048,head_size=2048"), *parse_schedule(schedule), device_->info().target);
  };
  const auto launch = [&](const Plan& plan) {
    const auto kernel = device_->load(artifact_for(plan), plan);
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    LaunchArguments a = arguments(10);
    a.stride(Operand::x) = a.stride(Operand::y) = 2048;
    EXPECT_TRUE(device_->launch(**kernel, a).ok());
    return driver_->launches.back();
  };
  constexpr int kCluster = 4, kSerialization = 6, kLargeClusters = 14;
  EXPECT_TRUE(launch(plan_of("lanes=32")).attributes.empty());
  const auto clusters = launch(plan_of("lanes=32,rows=1,cluster=4"));
  EXPECT_EQ(clusters.grid, 40u);
  ASSERT_EQ(clusters.attributes.size(), 1u);
  EXPECT_EQ(clusters.attributes.at(kCluster).cluster.x, 4u);
  EXPECT_EQ(clusters.attributes.at(kCluster).cluster.y, 1u);
  EXPECT_FALSE(driver_->function_attributes.contains(kLargeClusters));
  const auto all = launch(plan_of("lanes=32,vector=2,rows=1,cluster=16,launch=dependent"));
  EXPECT_EQ(all.grid, 160u);
  EXPECT_EQ(all.attributes.at(kCluster).cluster.x, 16u);
  EXPECT_EQ(all.attributes.at(kSerialization).programmatic_stream_serialization, 1);
  EXPECT_EQ(driver_->function_attributes.at(kLargeClusters), 1);
  // Whole clusters, as many as the device holds at a time.
  driver_->occupancy_clusters = 3;
  EXPECT_EQ(launch(plan_of("lanes=32,rows=1,cluster=4,grid=persistent")).grid, 12u);
  driver_->occupancy_clusters = 0;
  const Plan plan = plan_of("lanes=32,rows=1,cluster=4");
  const auto refused = device_->load(artifact_for(plan), plan);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("holds no cluster of 4 blocks"), std::string::npos) << refused.error().message;
}

TEST_F(CudaDeviceTest, MisalignedTensorsAreRefused) {
  const auto kernel = load();
  LaunchArguments a = arguments(10);
  a.address(Operand::x) = static_cast<char*>(a.address(Operand::x)) + 2;
  const auto launched = device_->launch(*kernel, a);
  ASSERT_FALSE(launched.ok());
  EXPECT_EQ(launched.error().kind, ErrorKind::user);
  EXPECT_TRUE(driver_->launches.empty());
}

TEST_F(CudaDeviceTest, FaultsOfEarlierLaunchesAreReported) {
  driver_->fail = {{"cuStreamSynchronize", 700}};
  const auto synchronized = device_->synchronize();
  ASSERT_FALSE(synchronized.ok());
  EXPECT_NE(synchronized.error().message.find("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), std::string::npos);
  EXPECT_NE(synchronized.error().remedy.find("start the process anew"), std::string::npos) << synchronized.error().remedy;
  char byte = 0;
  EXPECT_FALSE(device_->copy_out(&byte, &byte, 1).ok());
}

TEST_F(CudaDeviceTest, MeasuresBetweenEventsBehindAHold) {
  const auto kernel = load();
  driver_->parameter_count = 1;
  const auto time = device_->measure_us(*kernel, arguments(10));
  ASSERT_TRUE(time.ok()) << time.error().message;
  EXPECT_NEAR(*time, 25.0, 0.01);
  ASSERT_EQ(driver_->launches.size(), 2u);
  EXPECT_GT(driver_->launches[0].parameters[0], 0u);
  for (const char* function : {"cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime", "cuLaunchKernelEx"}) {
    driver_->fail = {{function, 999}};
    EXPECT_FALSE(device_->measure_us(*kernel, arguments(10)).ok()) << function;
  }
}

TEST_F(CudaDeviceTest, MeasuresCopiesBetweenEventsBehindAHold) {
  auto from = device_->allocate(512), to = device_->allocate(512);
  ASSERT_TRUE(from.ok() && to.ok());
  const std::string content(512, 'c');
  ASSERT_TRUE(device_->copy_in(from->address(), content.data(), content.size()).ok());
  const auto time = device_->measure_copy_us(to->address(), from->address(), 512);
  ASSERT_TRUE(time.ok()) << time.error().message;
  EXPECT_NEAR(*time, 25.0, 0.01);
  std::string copied(512, ' ');
  ASSERT_TRUE(device_->copy_out(copied.data(), to->address(), copied.size()).ok());
  EXPECT_EQ(copied, content);
  EXPECT_EQ(driver_->launches.size(), 1u);  // the hold
  driver_->fail = {{"cuMemcpyDtoDAsync_v2", 999}};
  const auto failed = device_->measure_copy_us(to->address(), from->address(), 512);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("cuMemcpyDtoDAsync of 512 bytes"), std::string::npos) << failed.error().message;
}

// A graph capture sees launches alone: what would load is refused while it goes on.
TEST_F(CudaDeviceTest, AKernelThatIsNotPreparedIsRefusedDuringCapture) {
  struct Backend final : CodegenBackend {
    std::string identity() const override { return "fake"; }
    Result<Artifact> compile(const Plan& plan) override { return artifact_for(plan); }
  } backend;
  Runtime runtime(*device_, nullptr, &backend);
  int stream = 0;
  driver_->capturing_stream = &stream;
  LaunchArguments a = arguments(10);
  a.stream = &stream;
  const auto unprepared = runtime.run(small_spec(), a);
  ASSERT_FALSE(unprepared.ok());
  EXPECT_EQ(unprepared.error().kind, ErrorKind::user);
  EXPECT_NE(unprepared.error().remedy.find("prepare()"), std::string::npos) << unprepared.error().remedy;

  LaunchArguments misaligned = a;
  misaligned.stream = nullptr;
  misaligned.address(Operand::x) = static_cast<char*>(a.address(Operand::x)) + 2;
  ASSERT_TRUE(runtime.prepare(small_spec(), 10).ok());
  ASSERT_TRUE(runtime.prepare(small_spec(), misaligned).ok());
  const int modules = driver_->modules;
  EXPECT_TRUE(runtime.run(small_spec(), a).ok());
  misaligned.stream = &stream;
  EXPECT_TRUE(runtime.run(small_spec(), misaligned).ok());
  EXPECT_EQ(driver_->modules, modules);
  EXPECT_EQ(driver_->launches.size(), 2u);
}

}  // namespace
}  // namespace headnorm
