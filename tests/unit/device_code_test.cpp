// Code for exactly one GPU: made once of a portable kernel, stored, and loaded in its place; on a driver that answers as it is
// told.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/nvjitlink.h"
#include "runtime/device_compiler.h"
#include "runtime/headnorm.h"
#include "runtime/kernel_cache.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/memory_database.h"

namespace headnorm {
namespace {

using fixtures::FakeDriver;
using fixtures::MemoryDatabase;
using Images = std::vector<std::string>;

// Without nvJitLink: the driver links.
const CudaDriverOptions kDriverLinks{HEADNORM_FAKE_DRIVER, "cuda", {}, {"libheadnorm_no_such_linker.so"}};
const CudaDriverOptions kPtxAlone{HEADNORM_FAKE_DRIVER, "cuda", {}, {}};

class PtxBackend final : public CodegenBackend {
 public:
  std::string identity() const override { return "fake-1"; }
  Result<Artifact> compile(const Plan& plan) override {
    ++compilations;
    return Artifact{ArtifactKind::ptx, entry_name(plan), "// " + to_text(plan.target), artifact_key(plan, identity()), identity()};
  }
  int compilations = 0;
};

Plan plan_for(const Target& target) {
  KernelSpec spec;
  spec.width = 512;
  spec.head_size = 256;
  return *make_plan(spec, default_schedule(spec, target), target);
}

class DeviceCodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* library = ::dlopen(HEADNORM_FAKE_DRIVER, RTLD_NOW);
    ASSERT_NE(library, nullptr);
    driver_ = reinterpret_cast<FakeDriver* (*)()>(::dlsym(library, "fake_driver"))();
    *driver_ = FakeDriver();
  }
  void TearDown() override {
    EXPECT_EQ(driver_->links, 0);
    EXPECT_EQ(driver_->modules, 0);
    EXPECT_EQ(driver_->calls_without_context, 0);
  }

  std::unique_ptr<Device> device(const CudaDriverOptions& options = kDriverLinks) {
    auto made = make_cuda_device(options, 0);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(*made);
  }

  // What a process does that needs one kernel on the GPU as it is: the images that the driver was given.
  Images load_in_new_process(JitMode mode = JitMode::allowed, const CudaDriverOptions& options = kDriverLinks) {
    const auto gpu = device(options);
    driver_->loaded.clear();
    KernelCache cache(*gpu, &database_, &backend_, mode);
    const auto kernel = cache.get(plan_for(gpu->info().target));
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return driver_->loaded;
  }

  int stored(ArtifactKind kind) const {
    int count = 0;
    for (const auto& [key, artifact] : database_.kernels) count += artifact.kind == kind;
    return count;
  }

  FakeDriver* driver_ = nullptr;
  MemoryDatabase database_;
  PtxBackend backend_;
};

TEST_F(DeviceCodeTest, IsMadeOnceAndLoadedFromThenOn) {
  driver_->jit_log = "ptxas info    : Used 24 registers";
  EXPECT_EQ(load_in_new_process(), Images{"cubin"});
  EXPECT_EQ(stored(ArtifactKind::cubin), 1);
  EXPECT_EQ(stored(ArtifactKind::ptx), 1) << "the portable form stays";
  EXPECT_EQ(load_in_new_process(), Images{"cubin"});
  EXPECT_EQ(load_in_new_process(JitMode::forbidden), Images{"cubin"});
  EXPECT_EQ(driver_->linked.size(), 1u);
  EXPECT_EQ(backend_.compilations, 1);
  EXPECT_TRUE(database_.warnings.empty());
  for (const auto& [key, artifact] : database_.kernels) {
    if (artifact.kind != ArtifactKind::cubin) continue;
    EXPECT_EQ(artifact.backend, "fake-1/driver-12.8/sm_90");
    EXPECT_EQ(database_.logs[key], driver_->jit_log);
  }
}

TEST_F(DeviceCodeTest, OfStoredPtxIsMadeWithoutTheBackend) {
  EXPECT_EQ(load_in_new_process(JitMode::allowed, kPtxAlone), Images{"ptx"});
  EXPECT_EQ(load_in_new_process(), Images{"cubin"});
  EXPECT_EQ(backend_.compilations, 1);
}

// Serving makes nothing that is not there.
TEST_F(DeviceCodeTest, IsNotMadeWhereCompilingIsForbidden) {
  EXPECT_EQ(load_in_new_process(JitMode::allowed, kPtxAlone), Images{"ptx"});
  EXPECT_EQ(load_in_new_process(JitMode::forbidden), Images{"ptx"});
  EXPECT_TRUE(driver_->linked.empty());
}

TEST_F(DeviceCodeTest, EveryArchitectureHasItsOwn) {
  for (int round = 0; round < 2; ++round) {
    for (int capability : {80, 86, 90, 87, 103, 120, 89}) {
      driver_->capability = capability;
      EXPECT_EQ(load_in_new_process(), Images{"cubin"}) << capability;
    }
    EXPECT_EQ(stored(ArtifactKind::cubin), 7);
    EXPECT_EQ(driver_->linked.size(), 7u);
  }
  EXPECT_LT(stored(ArtifactKind::ptx), 7) << "neighbours share the portable kernel";
  std::set<std::string> backends;
  for (const auto& [key, artifact] : database_.kernels) {
    if (artifact.kind == ArtifactKind::cubin) backends.insert(artifact.backend);
  }
  EXPECT_EQ(backends.count("fake-1/driver-12.8/sm_87"), 1u);
  EXPECT_EQ(backends.size(), 7u);
}

TEST_F(DeviceCodeTest, TargetsOfOneProcessorAloneAreNamed) {
  const auto gpu = device();
  ASSERT_NE(gpu->compiler(), nullptr);
  EXPECT_EQ(gpu->compiler()->identity(*parse_target("sm_90a")), "driver-12.8/sm_90a");
  EXPECT_EQ(gpu->compiler()->identity(*parse_target("sm_80+ptx86")), "driver-12.8/sm_90");
}

TEST_F(DeviceCodeTest, KeysTellToolVersionAndArchitectureApart) {
  std::set<std::string> keys;
  for (const char* portable : {"a", "b"}) {
    for (const char* compiler : {"nvjitlink-12.8/sm_90", "nvjitlink-12.9/sm_90", "driver-12.8/sm_90", "driver-12.8/sm_80"})
      keys.insert(device_code_key(portable, compiler));
  }
  EXPECT_EQ(keys.size(), 8u);
  EXPECT_EQ(keys.begin()->size(), 64u);
}

TEST_F(DeviceCodeTest, ThatDoesNotLoadGivesWayToThePortableKernel) {
  driver_->takes_cubins = false;
  EXPECT_EQ(load_in_new_process(), Images{"ptx"});
  EXPECT_EQ(stored(ArtifactKind::cubin), 0) << "what does not load is not kept";
  ASSERT_EQ(database_.warnings.size(), 1u);
  EXPECT_NE(database_.warnings[0].find("portable form"), std::string::npos) << database_.warnings[0];
}

TEST_F(DeviceCodeTest, StoredCodeThatDoesNotLoadAnyMoreGivesWayToThePortableKernel) {
  EXPECT_EQ(load_in_new_process(), Images{"cubin"});
  driver_->takes_cubins = false;
  EXPECT_EQ(load_in_new_process(), Images{"ptx"});
  EXPECT_EQ(load_in_new_process(JitMode::forbidden), Images{"ptx"});
  EXPECT_EQ(backend_.compilations, 1);
  EXPECT_FALSE(database_.warnings.empty());
}

TEST_F(DeviceCodeTest, AToolThatFailsIsSaidAndNotAskedAgain) {
  driver_->fail = {{"cuLinkComplete", 218}};
  driver_->jit_log = "line 7; error: Unknown opcode";
  const auto gpu = device();
  KernelCache cache(*gpu, &database_, &backend_, JitMode::allowed);
  for (int sm : {90, 80, 86}) EXPECT_TRUE(cache.get(plan_for(make_gpu_target(sm))).ok());
  EXPECT_EQ(driver_->linked.size(), 1u);
  EXPECT_EQ(driver_->loaded, (Images{"ptx", "ptx", "ptx"}));
  ASSERT_FALSE(database_.warnings.empty());
  EXPECT_NE(database_.warnings[0].find("Unknown opcode"), std::string::npos) << database_.warnings[0];
}

// A kernel that the device refuses in any form says nothing about code.
TEST_F(DeviceCodeTest, AKernelThatDoesNotFitTheDeviceIsNoFaultOfItsCode) {
  const auto gpu = device();
  KernelCache cache(*gpu, &database_, &backend_, JitMode::allowed);
  driver_->max_threads_of_function = 1;
  EXPECT_FALSE(cache.get(plan_for(gpu->info().target)).ok());
  EXPECT_TRUE(database_.warnings.empty());
  driver_->max_threads_of_function = 1024;
  driver_->loaded.clear();
  EXPECT_TRUE(cache.get(plan_for(gpu->info().target)).ok());
  EXPECT_EQ(driver_->loaded, Images{"cubin"});
}

TEST_F(DeviceCodeTest, WithoutADatabaseNothingIsMade) {
  const auto gpu = device();
  KernelCache cache(*gpu, nullptr, &backend_, JitMode::allowed);
  EXPECT_TRUE(cache.get(plan_for(gpu->info().target)).ok());
  EXPECT_EQ(driver_->loaded, Images{"ptx"});
  EXPECT_TRUE(driver_->linked.empty());
}

TEST_F(DeviceCodeTest, DevicesThatTakePtxAloneHaveNoCompiler) {
  EXPECT_EQ(device(kPtxAlone)->compiler(), nullptr);
  const auto host = make_host_device(1);
  ASSERT_TRUE(host.ok());
  EXPECT_EQ((*host)->compiler(), nullptr);
}

// Kernels that were stored for the PTX of one driver, served under another one where nothing may be compiled.
class DriverUpdate : public DeviceCodeTest {
 protected:
  static constexpr int kOldDriver = 11080, kNewDriver = 12080;  // PTX 7.8 and 8.7: targets sm_90 and sm_90+ptx80

  // A process opens a driver once by each name, and asks it for its version then.
  std::unique_ptr<Device> device_under(int version) {
    driver_->version = version;
    const std::filesystem::path library = HEADNORM_FAKE_DRIVER, folder = library.parent_path();
    CudaDriverOptions options = kPtxAlone;
    options.library =
        (version == kOldDriver ? folder / "." / library.filename() : folder / "." / "." / library.filename()).string();
    return device(options);
  }

  // What tuning under the driver leaves: a record with its kernel, that for misaligned tensors, and the default.
  Record tune_under(int version) {
    const DeviceInfo info = device_under(version)->info();
    Record record;
    record.id = "0123456789abcdef0123456789abcdef";
    record.spec = plan_for(info.target).spec;
    record.rows = 4;
    record.device = info;
    const GpuSchedule schedule{.lanes = 16, .vector_elements = 8, .block_threads = 256};
    const Plan winner = *make_plan(record.spec, schedule, info.target);
    record.schedule = winner.schedule;
    record.kernel = *database_.store_kernel(*backend_.compile(winner));
    const Plan twin = *make_plan(record.spec, unaligned_schedule(winner), info.target);
    EXPECT_NE(twin.schedule, winner.schedule) << "else this tests nothing";
    EXPECT_TRUE(database_.store_kernel(*backend_.compile(twin)).ok());
    EXPECT_TRUE(database_.store_kernel(*backend_.compile(plan_for(info.target))).ok());
    database_.record = record;
    backend_.compilations = 0;
    return record;
  }

  static LaunchArguments arguments(std::uintptr_t shift_bytes = 0) {
    LaunchArguments made;
    made.rows = 4;
    std::uintptr_t place = 0;
    for (Operand operand : kOperands) {
      made.address(operand) = reinterpret_cast<void*>((++place << 40) + shift_bytes);
      made.stride(operand) = 512;
    }
    return made;
  }
};

TEST_F(DriverUpdate, StoredKernelsOfAnOlderPtxServeWithoutACompiler) {
  const Record record = tune_under(kOldDriver);
  const auto gpu = device_under(kNewDriver);
  ASSERT_NE(gpu->info().target, record.device.target) << "else this tests nothing";
  const std::initializer_list<CodegenBackend*> backends = {nullptr, &backend_};
  for (CodegenBackend* const backend : backends) {
    driver_->launches.clear();
    Runtime runtime(*gpu, &database_, backend, JitMode::forbidden);
    const auto aligned = runtime.run(record.spec, arguments());
    ASSERT_TRUE(aligned.ok()) << aligned.error().message;
    EXPECT_EQ(aligned->served, Served::exact);
    EXPECT_EQ(aligned->schedule, record.schedule);
    const auto misaligned = runtime.run(record.spec, arguments(2));
    ASSERT_TRUE(misaligned.ok()) << misaligned.error().message;
    EXPECT_EQ(driver_->launches.size(), 2u);
  }
  EXPECT_EQ(backend_.compilations, 0);
  EXPECT_TRUE(database_.warnings.empty());
}

TEST_F(DriverUpdate, TheDefaultsStoredKernelOfAnOlderPtxServesWithoutARecord) {
  tune_under(kOldDriver);
  database_.record.reset();
  const auto gpu = device_under(kNewDriver);
  KernelCache cache(*gpu, &database_, &backend_, JitMode::forbidden);
  const auto kernel = cache.get(plan_for(gpu->info().target));
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ((*kernel)->plan().target, *parse_target("sm_90"));
  EXPECT_EQ(backend_.compilations, 0);
}

TEST_F(DriverUpdate, AProcessThatMayCompileMakesTheKernelForItsDriver) {
  tune_under(kOldDriver);
  const auto gpu = device_under(kNewDriver);
  KernelCache cache(*gpu, &database_, &backend_, JitMode::allowed);
  const auto kernel = cache.get(plan_for(gpu->info().target));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ((*kernel)->plan().target, gpu->info().target);
  EXPECT_EQ(backend_.compilations, 1);
}

TEST_F(DriverUpdate, StoredKernelsOfANewerPtxThanTheDriverTakesAreRefusedWithBothVersions) {
  const Record record = tune_under(kNewDriver);
  const auto gpu = device_under(kOldDriver);
  Runtime runtime(*gpu, &database_, nullptr, JitMode::forbidden);
  const auto refused = runtime.prepare(record.spec, record.rows);
  ASSERT_FALSE(refused.ok());
  for (const char* part : {"PTX 8.0", "takes PTX 7.8 at most", "no compiler"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().remedy.find("newer driver"), std::string::npos) << refused.error().remedy;
  EXPECT_TRUE(driver_->launches.empty());
}

TEST(NvJitLink, KnowsGpusOfItsTime) {
  EXPECT_TRUE(cuda::NvJitLink::knows(12030, 90));
  EXPECT_FALSE(cuda::NvJitLink::knows(12030, 100));
  EXPECT_TRUE(cuda::NvJitLink::knows(12080, 100));
  EXPECT_FALSE(cuda::NvJitLink::knows(12080, 103));
  EXPECT_TRUE(cuda::NvJitLink::knows(13000, 121));
  EXPECT_FALSE(cuda::NvJitLink::knows(13000, 75));
  EXPECT_FALSE(cuda::NvJitLink::knows(13000, 200));
}

TEST(NvJitLink, ThatIsNotThereIsSaid) {
  const std::vector<std::string> names = {"libheadnorm_no_such_linker.so"};
  const auto absent = cuda::NvJitLink::open(names);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().kind, ErrorKind::environment);
  const std::vector<std::string> others = {"libm.so.6"};
  const auto other = cuda::NvJitLink::open(others);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("lacks a function"), std::string::npos) << other.error().message;
}

}  // namespace
}  // namespace headnorm
