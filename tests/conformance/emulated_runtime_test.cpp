// The runtime on emulated GPUs: graphs, threads, several devices with one database, and kernels that do not load.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "tests/conformance/generated_kernel.h"
#include "tests/fixtures/emulated_device.h"

namespace headnorm {
namespace {

using fixtures::driver_call;

std::unique_ptr<Device> emulated(const std::string& model) {
  auto made = fixtures::make_emulated_device(model);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(*made);
}

class EmulatedRuntime : public GeneratedKernel {
 protected:
  std::vector<std::string> stored_targets() const {
    std::vector<std::string> targets;
    for (const auto& file : std::filesystem::directory_iterator(directory_.path() / "db" / "kernels")) {
      if (file.path().extension() != ".ptx") continue;
      std::ifstream stream(file.path());
      const std::string ptx{std::istreambuf_iterator<char>(stream), {}};
      const std::size_t at = ptx.find(".target ") + 8;
      targets.push_back(ptx.substr(at, ptx.find('\n', at) - at));
    }
    std::ranges::sort(targets);
    return targets;
  }
};

// Tensors of `rows` rows in a device, x written.
struct Tensors {
  Tensors(Device& on, const KernelSpec& spec, std::int64_t rows, const std::vector<float>& values) : device(&on) {
    const std::size_t count = static_cast<std::size_t>(rows * spec.width);
    x = std::move(*on.allocate(count * sizeof(float)));
    y = std::move(*on.allocate(count * sizeof(float)));
    const std::vector<float> nothing(count, -7);
    EXPECT_TRUE(on.copy_in(x.address(), values.data(), count * sizeof(float)).ok());
    EXPECT_TRUE(on.copy_in(y.address(), nothing.data(), count * sizeof(float)).ok());
    arguments.rows = rows;
    arguments.address(Operand::x) = x.address();
    arguments.address(Operand::y) = y.address();
    arguments.stride(Operand::x) = arguments.stride(Operand::y) = spec.width;
    out.resize(count);
  }
  const std::vector<float>& read() {
    EXPECT_TRUE(device->copy_out(out.data(), y.address(), out.size() * sizeof(float)).ok());
    return out;
  }

  Device* device;
  Buffer x, y;
  LaunchArguments arguments;
  std::vector<float> out;
};

// What a client that captures graphs needs of the driver, in the device's primary context.
class Capture {
 public:
  Capture() {
    EXPECT_EQ(driver_call("cuDevicePrimaryCtxRetain", &context_, kDevice), 0);
    EXPECT_EQ(driver_call("cuCtxSetCurrent", context_), 0);
    EXPECT_EQ(driver_call("cuStreamCreate", &stream_, 1u), 0);
  }
  ~Capture() {
    driver_call("cuStreamDestroy", stream_);
    driver_call("cuCtxSetCurrent", static_cast<void*>(nullptr));
    driver_call("cuDevicePrimaryCtxRelease_v2", kDevice);
  }
  void* stream() const { return stream_; }
  void begin() { EXPECT_EQ(driver_call("cuStreamBeginCapture_v2", stream_, 0), 0); }
  std::size_t end() {
    std::size_t nodes = 0;
    EXPECT_EQ(driver_call("cuStreamEndCapture", stream_, &graph_), 0);
    EXPECT_EQ(driver_call("cuGraphGetNodes", graph_, static_cast<void*>(nullptr), &nodes), 0);
    return nodes;
  }
  void replay() {
    void* executable = nullptr;
    EXPECT_EQ(driver_call("cuGraphInstantiateWithFlags", &executable, graph_, 0ull), 0);
    EXPECT_EQ(driver_call("cuGraphLaunch", executable, stream_), 0);
    EXPECT_EQ(driver_call("cuStreamSynchronize", stream_), 0);
  }

 private:
  static constexpr int kDevice = 3;  // h200, the fourth of the models
  void *context_ = nullptr, *stream_ = nullptr, *graph_ = nullptr;
};

TEST_F(EmulatedRuntime, ACaptureOfAPreparedKernelIsOneLaunchAndReplaysTheSameBits) {
  const auto on = emulated("h200");
  Runtime runtime(*on, nullptr, backend_.get());
  Tensors direct(*on, spec_, 40, x_), replayed(*on, spec_, 40, x_);
  ASSERT_TRUE(runtime.prepare(spec_, direct.arguments).ok());
  Capture capture;
  replayed.arguments.stream = capture.stream();
  capture.begin();
  const auto captured = runtime.run(spec_, replayed.arguments);
  EXPECT_EQ(capture.end(), 1u);
  ASSERT_TRUE(captured.ok()) << captured.error().message;
  EXPECT_EQ(replayed.read(), std::vector<float>(replayed.out.size(), -7)) << "a capture runs nothing";
  ASSERT_TRUE(runtime.run(spec_, direct.arguments).ok());
  capture.replay();
  EXPECT_EQ(replayed.read(), direct.read());
}

// x[i] = n, and sum[i] += y[i] * n, of 256 elements.
constexpr const char* kNeighbours = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry produce(.param .u64 x, .param .f32 n)
{
	.reg .f32 %n; .reg .b32 %i; .reg .b64 %x, %offset;
	ld.param.u64 %x, [x];
	ld.param.f32 %n, [n];
	mov.u32 %i, %tid.x;
	mul.wide.u32 %offset, %i, 4;
	add.u64 %x, %x, %offset;
	st.global.f32 [%x], %n;
	ret;
}
.visible .entry consume(.param .u64 y, .param .u64 sum, .param .f32 n)
{
	.reg .f32 %n, %v, %s; .reg .b32 %i; .reg .b64 %y, %sum, %offset;
	ld.param.u64 %y, [y];
	ld.param.u64 %sum, [sum];
	ld.param.f32 %n, [n];
	mov.u32 %i, %tid.x;
	mul.wide.u32 %offset, %i, 4;
	add.u64 %y, %y, %offset;
	add.u64 %sum, %sum, %offset;
	ld.global.f32 %v, [%y];
	ld.global.f32 %s, [%sum];
	fma.rn.f32 %s, %v, %n, %s;
	st.global.f32 [%sum], %s;
	ret;
}
)";

// y is the sign of x, which changes: the sum counts the launches between their own producer and consumer. `run` queues the norm.
void run_between_neighbours(Device& on, const KernelSpec& spec, const std::vector<float>& values, int times,
                            const std::function<void(const LaunchArguments&)>& run) {
  Tensors tensors(on, spec, 1, values), sum(on, spec, 1, std::vector<float>(256, 0));
  Capture client;
  tensors.arguments.stream = client.stream();
  void *module = nullptr, *produce = nullptr, *consume = nullptr;
  ASSERT_EQ(driver_call("cuModuleLoadData", &module, kNeighbours), 0);
  ASSERT_EQ(driver_call("cuModuleGetFunction", &produce, module, "produce"), 0);
  ASSERT_EQ(driver_call("cuModuleGetFunction", &consume, module, "consume"), 0);
  const auto launch = [&](void* function, void** parameters) {
    return driver_call("cuLaunchKernel", function, 1u, 1u, 1u, 256u, 1u, 1u, 0u, client.stream(), parameters,
                       static_cast<void**>(nullptr));
  };
  void *x = tensors.x.address(), *y = tensors.y.address(), *total = sum.x.address();
  for (int i = 0; i < times; ++i) {
    float n = (i % 3 == 0 ? -1.0f : 1.0f) * std::ldexp(1.0f, i % 20), sign = i % 3 == 0 ? -1.0f : 1.0f;
    void *produced[] = {&x, &n}, *consumed[] = {&y, &total, &sign};
    ASSERT_EQ(launch(produce, produced), 0);
    run(tensors.arguments);
    ASSERT_EQ(launch(consume, consumed), 0);
  }
  ASSERT_EQ(driver_call("cuStreamSynchronize", client.stream()), 0);
  std::vector<float> sums(256);
  ASSERT_TRUE(on.copy_out(sums.data(), total, sums.size() * sizeof(float)).ok());
  EXPECT_EQ(sums, std::vector<float>(256, static_cast<float>(times)));
}

TEST_F(EmulatedRuntime, ProducerNormAndConsumerOfOneStreamKeepTheirOrder) {
  const auto on = emulated("h200");
  KernelSpec spec = spec_;
  spec.eps = 0;
  Runtime runtime(*on, nullptr, backend_.get());
  ASSERT_TRUE(runtime.prepare(spec, 1).ok());
  run_between_neighbours(*on, spec, x_, 10000,
                         [&](const LaunchArguments& arguments) { ASSERT_TRUE(runtime.run(spec, arguments).ok()); });
}

// The norm may start while its producer runs: the emulator says what it touches before it has waited.
TEST_F(EmulatedRuntime, ANormThatMayStartEarlyWaitsForItsProducer) {
  const auto on = emulated("h200");
  KernelSpec spec = spec_;
  spec.eps = 0;
  const std::pair<const char*, int> kSchedules[] = {
      {"lanes=16,vector=4,launch=dependent", 10000},
      {"lanes=8,vector=4,cluster=2,staging=bulk,grid=persistent,launch=dependent", 2000},
      {"lanes=16,vector=4,staging=async,grid=persistent,stages=3,cache=stream,launch=dependent", 2000}};
  for (const auto& [schedule, times] : kSchedules) {
    SCOPED_TRACE(schedule);
    const auto plan = make_plan(spec, *parse_schedule(schedule), on->info().target);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const auto kernel = on->load(*backend_->compile(*plan), *plan);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    run_between_neighbours(*on, spec, x_, times, [&](const LaunchArguments& arguments) {
      const auto launched = on->launch(**kernel, arguments);
      ASSERT_TRUE(launched.ok()) << launched.error().message;
    });
  }
}

TEST_F(EmulatedRuntime, WithoutPrepareACaptureGetsAClearErrorAndIsNotSpoilt) {
  const auto on = emulated("h200");
  Runtime runtime(*on, nullptr, backend_.get());
  Tensors tensors(*on, spec_, 40, x_);
  Capture capture;
  tensors.arguments.stream = capture.stream();
  capture.begin();
  const auto refused = runtime.run(spec_, tensors.arguments);
  EXPECT_EQ(capture.end(), 0u);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("captured"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().remedy.find("prepare()"), std::string::npos) << refused.error().remedy;
}

// A kernel's own allowance of shared memory stays, whatever others load and launch meanwhile.
TEST_F(EmulatedRuntime, TwoThreadsLaunchKernelsOfMuchAndOfLittleSharedMemory) {
  const auto on = emulated("h200");
  const auto plan_of = [&](const char* spec) {
    return *make_plan(*parse_spec(spec), *parse_schedule("lanes=128,vector=4,residency=shared,groups=1,rows=1"), on->info().target);
  };
  const Plan much = plan_of("width=24576,head_size=24576,x=f32,y=f32,weight=none");
  const Plan little = plan_of("width=1024,head_size=1024,x=f32,y=f32,weight=none");
  ASSERT_GE(much.gpu().dynamic_shared_bytes, 96 * 1024);
  ASSERT_EQ(little.gpu().dynamic_shared_bytes, 4096);
  std::vector<std::thread> threads;
  for (const Plan* plan : {&much, &little, &much, &little})
    threads.emplace_back([&, plan] {
      const Artifact artifact = *backend_->compile(*plan);
      Tensors tensors(*on, plan->spec, 2, x_);
      for (int i = 0; i < 5; ++i) {
        const auto kernel = on->load(artifact, *plan);
        ASSERT_TRUE(kernel.ok()) << kernel.error().message;
        const auto launched = on->launch(**kernel, tensors.arguments);
        ASSERT_TRUE(launched.ok()) << launched.error().message;
        const auto ended = on->synchronize();
        ASSERT_TRUE(ended.ok()) << ended.error().message;
      }
      double sum_sq = 0;
      for (float y : tensors.read()) sum_sq += static_cast<double>(y) * y;
      EXPECT_NEAR(sum_sq / static_cast<double>(tensors.out.size()), 1, 1e-5);
    });
  for (std::thread& thread : threads) thread.join();
}

// x and the residual in one tensor: the same bits as of two with the same values.
TEST_F(EmulatedRuntime, XMayBeTheResidual) {
  const auto on = emulated("h200");
  const KernelSpec spec = *parse_spec("width=16384,head_size=256,x=f32,y=f32,weight=none,residual=add:f32");
  for (const char* residency : {"registers", "shared", "reload"}) {
    const auto plan = make_plan(spec, *parse_schedule(fmt::format("lanes=32,vector=4,residency={}", residency)), on->info().target);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const auto kernel = on->load(*backend_->compile(*plan), *plan);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    std::vector<std::vector<float>> results;
    for (const bool is_one : {false, true}) {
      Tensors tensors(*on, spec, 3, x_), residual(*on, spec, 3, x_);
      LaunchArguments& a = tensors.arguments;
      a.address(Operand::residual) = is_one ? tensors.x.address() : residual.x.address();
      a.address(Operand::residual_out) = residual.y.address();
      a.stride(Operand::residual) = a.stride(Operand::residual_out) = spec.width;
      const auto launched = on->launch(**kernel, a);
      ASSERT_TRUE(launched.ok()) << launched.error().message;
      results.push_back(tensors.read());
      for (float value : residual.read()) results.back().push_back(value);
    }
    EXPECT_EQ(results[0], results[1]) << residency;
  }
}

// In any order of first use each device gets an image of its own, and gets it again without compiling.
TEST_F(EmulatedRuntime, DevicesThatShareADatabaseHaveImagesOfTheirOwn) {
  std::vector<std::string> order = {"a100", "b200", "h200", "rtx5090", "rtx3090", "l40s"};
  std::vector<std::string> expected_targets;
  for (const std::string& model : order) expected_targets.push_back(to_text(emulated(model)->info().target));
  for (std::string& target : expected_targets) target = target.substr(0, target.find('+'));
  std::ranges::sort(expected_targets);
  std::vector<float> expected;
  for (int round = 0; round < 4; ++round, std::ranges::rotate(order, order.begin() + 1)) {
    std::filesystem::remove_all(directory_.path() / "db");
    for (const JitMode mode : {JitMode::allowed, JitMode::forbidden}) {
      const auto db = database();
      for (const std::string& model : order) {
        const auto on = emulated(model);
        Runtime runtime(*on, db.get(), backend_.get(), mode);
        const auto kept = runtime.prepare(spec_, kRows);
        ASSERT_TRUE(kept.ok()) << model << ": " << kept.error().message;
        if (round > 0) continue;
        const std::vector<float> y = run(runtime, *on);
        if (expected.empty()) expected = y;
        EXPECT_EQ(y, expected) << model;
      }
    }
    EXPECT_EQ(stored_targets(), expected_targets);
  }
}

TEST_F(EmulatedRuntime, ImagesRunOnLaterArchitecturesUnlessTheyAreOfOneAlone) {
  const struct {
    const char *model, *target;
    bool runs;
  } kCases[] = {{"a100", "sm_80", true},     {"a100", "sm_86", false},    {"h200", "sm_86", true},    {"h200", "sm_90a", true},
                {"b200", "sm_90a", false},   {"b200", "sm_100a", true},   {"rtx5090", "sm_90", true}, {"rtx5090", "sm_100a", false},
                {"b200", "sm_120", false},   {"rtx5090", "sm_120", true}, {"rtx3090", "sm_86", true}, {"rtx3090", "sm_80", true},
                {"rtx3090", "sm_89", false}, {"l40s", "sm_86", true},     {"l40s", "sm_90", false}};
  for (const auto& c : kCases) {
    const auto on = emulated(c.model);
    const Plan plan = *make_plan(spec_, tuned_schedule(on->info().target), *parse_target(c.target));
    const auto loaded = on->load(*backend_->compile(plan), plan);
    EXPECT_EQ(loaded.ok(), c.runs) << c.target << " on " << c.model;
    if (loaded.ok()) continue;
    EXPECT_NE(loaded.error().message.find(c.target), std::string::npos) << loaded.error().message;
  }
}

TEST_F(EmulatedRuntime, TheSameNameWithAnotherNumberOfMultiprocessorsIsAnotherDevice) {
  const auto on = emulated("h200");
  const auto db = database();
  DeviceInfo smaller = on->info();
  --smaller.units;
  publish(*db, smaller, kRows);
  Runtime runtime(*on, db.get(), backend_.get());
  const auto report = runtime.prepare(spec_, kRows);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->served, Served::other_device);
}

TEST_F(EmulatedRuntime, PtxNewerThanTheDriverIsAnErrorWithBothVersions) {
  const auto on = emulated("h200");
  const Plan plan = *make_plan(spec_, tuned_schedule(on->info().target), on->info().target);
  Artifact artifact = *backend_->compile(plan);
  const std::size_t at = artifact.bytes.find(".version ");
  artifact.bytes.replace(at, artifact.bytes.find('\n', at) - at, ".version 9.9");
  const auto refused = on->load(artifact, plan);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("9.9"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("9.0"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().remedy.find("newer driver"), std::string::npos) << refused.error().remedy;
}

// A kernel that is stored whole but that the driver no longer takes: compiled anew, or the default, or an error; never the end.
TEST_F(EmulatedRuntime, AStoredWinnerThatNoLongerLoads) {
  const auto on = emulated("h200");
  const Plan plan = *make_plan(spec_, tuned_schedule(on->info().target), on->info().target);
  Artifact broken = *backend_->compile(plan);
  broken.bytes.insert(broken.bytes.find("ret;"), "frobnicate; ");
  const auto db = database();
  const Record record = publish(*db, on->info(), kRows, broken);
  {
    Runtime runtime(*on, db.get(), nullptr);
    const auto lost = runtime.prepare(spec_, kRows);
    ASSERT_FALSE(lost.ok());
    EXPECT_FALSE(lost.error().remedy.empty());
  }
  const Plan fallback = *make_plan(spec_, default_schedule(spec_, on->info().target), on->info().target);
  ASSERT_TRUE(db->store_kernel(*backend_->compile(fallback)).ok());
  {
    Runtime runtime(*on, db.get(), nullptr, JitMode::forbidden);
    run(runtime, *on);
    EXPECT_EQ(last_report_.served, Served::fallback);
  }
  Runtime runtime(*on, db.get(), backend_.get());
  run(runtime, *on);
  EXPECT_EQ(last_report_.served, Served::exact);
  EXPECT_EQ(last_report_.record, record.id);
}

// What is wrong with a kernel is in the error, in the words of the emulator; the context is lost, the process is not.
TEST_F(EmulatedRuntime, AFaultIsToldInWords) {
  const auto on = emulated("h200");
  Runtime runtime(*on, nullptr, backend_.get());
  Tensors tensors(*on, spec_, 40, x_);
  tensors.arguments.rows = 41;
  ASSERT_TRUE(runtime.run(spec_, tensors.arguments).ok()) << "a fault shows later";
  const auto ended = on->synchronize();
  ASSERT_FALSE(ended.ok());
  for (const char* word : {"CUDA_ERROR_ILLEGAL_ADDRESS", "ld.global", "thread (", "past the end of an allocation", "in_bounds"})
    EXPECT_NE(ended.error().message.find(word), std::string::npos) << word << " in " << ended.error().message;
  EXPECT_NE(ended.error().remedy.find("start the process anew"), std::string::npos) << ended.error().remedy;
}

}  // namespace
}  // namespace headnorm
