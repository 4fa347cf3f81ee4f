// What every Device promises, run on each that this machine has. A new device is a new line of kDevices.
#include "runtime/device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "tests/fixtures/fixtures.h"
#ifdef HEADNORM_EMULATOR_DRIVER
#include "generator/generator.h"
#include "tests/fixtures/emulated_device.h"
#endif

namespace headnorm {
namespace {

struct DeviceCase {
  const char* name;
  std::function<Result<std::unique_ptr<Device>>()> make;
  std::function<Result<Plan>(const Target&)> plan;  // of fixtures::norm_spec
  std::function<Result<Artifact>(const Plan&)> artifact;
};

Result<Plan> host_plan(const Target&) { return fixtures::norm_plan(); }
Result<Artifact> host_artifact(const Plan&) { return fixtures::norm_artifact(HEADNORM_FIXTURE_NORM); }

#ifdef HEADNORM_EMULATOR_DRIVER
Result<Plan> gpu_plan(const Target& target) {
  return make_plan(fixtures::norm_spec(), default_schedule(fixtures::norm_spec(), target), target);
}
Result<Artifact> generated_artifact(const Plan& plan) { return make_llvm_backend()->compile(plan); }
#endif

const DeviceCase kDevices[] = {
    {"host_1_thread", [] { return make_host_device(1); }, host_plan, host_artifact},
    {"host_3_threads", [] { return make_host_device(3); }, host_plan, host_artifact},
#ifdef HEADNORM_EMULATOR_DRIVER
    {"emulated_a100", [] { return fixtures::make_emulated_device("a100"); }, gpu_plan, generated_artifact},
    {"emulated_rtx3090", [] { return fixtures::make_emulated_device("rtx3090"); }, gpu_plan, generated_artifact},
    {"emulated_l40s", [] { return fixtures::make_emulated_device("l40s"); }, gpu_plan, generated_artifact},
    {"emulated_h200", [] { return fixtures::make_emulated_device("h200"); }, gpu_plan, generated_artifact},
    {"emulated_b200", [] { return fixtures::make_emulated_device("b200"); }, gpu_plan, generated_artifact},
    {"emulated_rtx5090", [] { return fixtures::make_emulated_device("rtx5090"); }, gpu_plan, generated_artifact},
#endif
};

void PrintTo(const DeviceCase& device, std::ostream* stream) { *stream << device.name; }

constexpr std::int64_t kWidth = 96, kHeadSize = 32;
constexpr float kCanary = -7.25f;

// A head's elements are one power of two with signs that vary: its root mean square is that power, exactly, and y is the sign.
float sign_at(std::int64_t row, std::int64_t column) { return (row * 31 + column * 17 + row * column) % 5 < 2 ? -1.0f : 1.0f; }
float x_at(std::int64_t row, std::int64_t column) {
  return sign_at(row, column) * std::ldexp(1.0f, static_cast<int>((row + column / kHeadSize) % 21) - 10);
}

class DeviceConformance : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    auto device = GetParam().make();
    ASSERT_TRUE(device.ok()) << device.error().message;
    device_ = std::move(*device);
    auto plan = GetParam().plan(device_->info().target);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    plan_ = *plan;
    auto artifact = GetParam().artifact(plan_);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    artifact_ = *artifact;
    auto kernel = device_->load(artifact_, plan_);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    kernel_ = *kernel;
  }

  Result<Buffer> allocate_zeros(std::size_t bytes) {
    HEADNORM_TRY(Buffer buffer, device_->allocate(bytes));
    const std::vector<char> zeros(bytes);
    HEADNORM_CHECK(device_->copy_in(buffer.address(), zeros.data(), bytes));
    return buffer;
  }

  // Launches on `rows` rows with these strides and compares every element, gaps included.
  void expect_right(std::int64_t rows, std::int64_t x_stride = kWidth, std::int64_t y_stride = kWidth) {
    std::vector<float> x(static_cast<std::size_t>(rows * x_stride), 1e30f), y(static_cast<std::size_t>(rows * y_stride), kCanary);
    std::vector<float> expected = y;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < kWidth; ++column) {
        x[static_cast<std::size_t>(row * x_stride + column)] = x_at(row, column);
        expected[static_cast<std::size_t>(row * y_stride + column)] = sign_at(row, column);
      }
    }
    auto device_x = device_->allocate(x.size() * sizeof(float)), device_y = device_->allocate(y.size() * sizeof(float));
    ASSERT_TRUE(device_x.ok() && device_y.ok());
    ASSERT_TRUE(device_->copy_in(device_x->address(), x.data(), x.size() * sizeof(float)).ok());
    ASSERT_TRUE(device_->copy_in(device_y->address(), y.data(), y.size() * sizeof(float)).ok());
    LaunchArguments arguments;
    arguments.rows = rows;
    arguments.address(Operand::x) = device_x->address();
    arguments.address(Operand::y) = device_y->address();
    arguments.stride(Operand::x) = x_stride;
    arguments.stride(Operand::y) = y_stride;
    const auto launched = device_->launch(*kernel_, arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    ASSERT_TRUE(device_->synchronize().ok());
    ASSERT_TRUE(device_->copy_out(y.data(), device_y->address(), y.size() * sizeof(float)).ok());
    EXPECT_EQ(y, expected);
  }

  std::unique_ptr<Device> device_;
  Plan plan_;
  Artifact artifact_;
  std::shared_ptr<const LoadedKernel> kernel_;
};

TEST_P(DeviceConformance, ACopyThatIsMeasuredIsMade) {
  const std::vector<char> content(4096, 'c');
  auto from = device_->allocate(content.size()), to = device_->allocate(content.size());
  ASSERT_TRUE(from.ok() && to.ok());
  ASSERT_TRUE(device_->copy_in(from->address(), content.data(), content.size()).ok());
  const auto time_us = device_->measure_copy_us(to->address(), from->address(), content.size());
  if (!time_us.ok()) {
    EXPECT_EQ(time_us.error().kind, ErrorKind::environment);
    EXPECT_EQ(device_->info().kind, "host");
    return;
  }
  EXPECT_GT(*time_us, 0);
  std::vector<char> copied(content.size());
  ASSERT_TRUE(device_->copy_out(copied.data(), to->address(), copied.size()).ok());
  EXPECT_EQ(copied, content);
}

TEST_P(DeviceConformance, SaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_FALSE(info.kind.empty());
  EXPECT_EQ(info.id.substr(0, info.kind.size()), info.kind);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.units, 1);
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_GE(info.cache_bytes, 0);
}

TEST_P(DeviceConformance, AllocatesAlignedMemoryOfItsOwn) {
  std::vector<Buffer> buffers;
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, (std::size_t{2} << 20) + 1}) {
    auto buffer = device_->allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->address()) % 256, 0u);
    EXPECT_GE(buffer->bytes(), bytes);
    for (const Buffer& other : buffers) EXPECT_NE(other.address(), buffer->address());
    buffers.push_back(std::move(*buffer));
  }
}

TEST_P(DeviceConformance, TooLargeAnAllocationIsAnError) {
  for (std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} / 2}) {
    const auto buffer = device_->allocate(bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().kind, ErrorKind::environment);
    EXPECT_FALSE(buffer.error().remedy.empty());
  }
}

TEST_P(DeviceConformance, CopiesInAndOut) {
  const std::string text = "as it was";
  auto buffer = device_->allocate(text.size());
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(device_->copy_in(buffer->address(), text.data(), text.size()).ok());
  std::string back(text.size(), ' ');
  ASSERT_TRUE(device_->copy_out(back.data(), buffer->address(), back.size()).ok());
  EXPECT_EQ(back, text);
  EXPECT_TRUE(device_->copy_in(nullptr, nullptr, 0).ok());
  EXPECT_TRUE(device_->copy_out(nullptr, nullptr, 0).ok());
}

TEST_P(DeviceConformance, RefusesAnArtifactOfAnotherKind) {
  Artifact other = artifact_;
  other.kind = other.kind == ArtifactKind::ptx ? ArtifactKind::object : ArtifactKind::ptx;
  const auto loaded = device_->load(other, plan_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::user);
  EXPECT_NE(loaded.error().message.find(to_text(other.kind)), std::string::npos) << loaded.error().message;
  EXPECT_NE(loaded.error().message.find(to_text(device_->info().target)), std::string::npos) << loaded.error().message;
}

TEST_P(DeviceConformance, RefusesAnArtifactThatIsNotWhole) {
  Artifact damaged = artifact_;
  damaged.bytes.resize(damaged.bytes.size() / 2);
  EXPECT_FALSE(device_->load(damaged, plan_).ok());
  damaged.bytes.clear();
  EXPECT_FALSE(device_->load(damaged, plan_).ok());
  Artifact misnamed = artifact_;
  misnamed.entry = "another_entry";
  EXPECT_FALSE(device_->load(misnamed, plan_).ok());
}

TEST_P(DeviceConformance, RefusesAKernelOfAnotherDevice) {
  struct Foreign final : LoadedKernel {
    explicit Foreign(const Plan& plan) : LoadedKernel(plan) {}
  };
  EXPECT_FALSE(device_->launch(Foreign(plan_), {}).ok());
}

TEST_P(DeviceConformance, LaunchesAnyNumberOfRows) {
  for (std::int64_t rows : {1, 2, 7, 1000, 6001}) expect_right(rows);
}

TEST_P(DeviceConformance, KeepsToItsRowsWithAStrideForEachTensor) { expect_right(6001, 3 * kWidth, kWidth + 8); }

TEST_P(DeviceConformance, ZeroRowsWithNullAddressesDoNothing) {
  EXPECT_TRUE(device_->launch(*kernel_, {}).ok());
  EXPECT_TRUE(device_->measure_us(*kernel_, {}).ok());
  expect_right(7);
}

TEST_P(DeviceConformance, RefusesArgumentsThatBreakARule) {
  auto buffer = allocate_zeros(4096);
  ASSERT_TRUE(buffer.ok());
  LaunchArguments arguments;
  arguments.rows = 2;
  arguments.stride(Operand::x) = arguments.stride(Operand::y) = kWidth;
  arguments.address(Operand::x) = buffer->address();
  const auto null = device_->launch(*kernel_, arguments);  // y is null
  ASSERT_FALSE(null.ok());
  EXPECT_EQ(null.error().kind, ErrorKind::user);
  EXPECT_EQ(null.error().message.find("y "), 0u) << null.error().message;
  arguments.address(Operand::y) = static_cast<char*>(buffer->address()) + 2048;
  EXPECT_TRUE(device_->launch(*kernel_, arguments).ok());
  arguments.stride(Operand::y) = kWidth - 1;
  EXPECT_FALSE(device_->launch(*kernel_, arguments).ok());
  arguments.stride(Operand::y) = kWidth;
  arguments.rows = -2;
  EXPECT_FALSE(device_->launch(*kernel_, arguments).ok());
  EXPECT_FALSE(device_->measure_us(*kernel_, arguments).ok());
  ASSERT_TRUE(device_->synchronize().ok());
}

TEST_P(DeviceConformance, ManyThreadsLaunchAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([this, i] {
      for (std::int64_t rows : {5 + i, 3000 + i}) expect_right(rows, kWidth, kWidth + 8 * i);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(DeviceConformance, MeasuresTheTimeOfALaunch) {
  const std::size_t bytes = 6000 * kWidth * sizeof(float);
  auto x = allocate_zeros(bytes), y = allocate_zeros(bytes);
  ASSERT_TRUE(x.ok() && y.ok());
  LaunchArguments arguments;
  arguments.rows = 6000;
  arguments.address(Operand::x) = x->address();
  arguments.address(Operand::y) = y->address();
  arguments.stride(Operand::x) = arguments.stride(Operand::y) = kWidth;
  const auto time = device_->measure_us(*kernel_, arguments);
  ASSERT_TRUE(time.ok());
  EXPECT_GT(*time, 0.0);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, ::testing::ValuesIn(kDevices),
                         [](const ::testing::TestParamInfo<DeviceCase>& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace headnorm
