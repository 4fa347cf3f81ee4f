// The kernels that the generator writes, on every architecture: right against the reference, without a fault, and the same bits
// under three orders of warps; within the bound also with approximate instructions at either end of their error.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/host_runner.h"
#include "tests/support/ptx_grid.h"

namespace headnorm::test {
namespace {

using emulator::ApproximateError;
using emulator::LaunchOptions;
using emulator::Order;

constexpr std::int64_t kRows = 3, kMaxWidth = 16384;

LaunchTensors make_tensors(const Plan& plan, std::int64_t rows, Random& random, const Layout& layout = {}) {
  LaunchTensors tensors(plan.spec, rows, layout);
  RowValues values;
  fill_random_weights(random, plan.spec, values);
  tensors.set_weights(values);
  for (std::int64_t row = 0; row < rows; ++row) {
    fill_random_row(random, plan.spec, values);
    tensors.set_row(row, values);
  }
  tensors.seal();
  return tensors;
}

void check_plan(CodegenBackend& backend, const Plan& plan) {
  SCOPED_TRACE(fmt::format("spec {}\nschedule {}\ntarget {}", to_text(plan.spec), to_text(plan.schedule), to_text(plan.target)));
  LaunchOptions options[5];
  options[1].order = Order::reverse;
  options[2].order = Order::random;
  options[3].approximate_error = ApproximateError::lowest;
  options[4].approximate_error = ApproximateError::highest;
  const Result<Artifact> artifact = backend.compile(plan);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::optional<LaunchTensors> first;
  for (const LaunchOptions& option : options) {
    Random random(7);
    LaunchTensors tensors = make_tensors(plan, kRows, random);
    std::vector<RowValues> inputs;
    for (std::int64_t row = 0; row < kRows; ++row) inputs.push_back(tensors.inputs(row));
    const Result<emulator::Counters> ran = run_emulated(*artifact, plan, tensors, option);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    ASSERT_EQ(tensors.damage(), "");
    for (std::int64_t row = 0; row < kRows; ++row)
      ASSERT_EQ(check_row(plan, tensors, row, inputs[static_cast<std::size_t>(row)]), "");
    if (!first) {
      first.emplace(std::move(tensors));
    } else if (option.approximate_error == ApproximateError::none) {
      ASSERT_TRUE(same_outputs(*first, tensors)) << "other bits under another order of warps";
    }
  }
}

class Generated : public testing::TestWithParam<std::size_t> {};

TEST_P(Generated, KernelsAreRightUnderEveryOrder) {
  const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
  const Target& target = gpu_targets()[GetParam()];
  constexpr std::size_t kSampled = 60;
  std::vector<Plan> plans;
  for (const std::vector<Plan>& some : {default_plans(target), sampled_plans(target, kSampled)}) {
    for (const Plan& plan : some) {
      if (plan.spec.width <= kMaxWidth) plans.push_back(plan);
    }
  }
  ASSERT_GE(plans.size(), kSampled);
  for (const Plan& plan : plans) {
    check_plan(*backend, plan);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Generated, testing::Range(std::size_t{0}, gpu_targets().size()));

// Under a perfect cache a launch moves each row once and the weights once: within 2 % of the least that the formula needs.
TEST(GeneratedTraffic, IsTheLeastThatTheFormulaNeeds) {
  constexpr std::int64_t kManyRows = 64;
  const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
  for (const char* text :
       {"width=4096,head_size=256", "width=1152,head_size=288", "width=2048,head_size=128,residual=add:bf16",
        "width=1024,head_size=256,residual=inplace:bf16,gate=seednorm", "width=768,head_size=768,x=f32,y=f32,weight=channel:f32"}) {
    const KernelSpec spec = *parse_spec(text);
    const Target target = make_gpu_target(90);
    const Plan plan = *make_plan(spec, default_schedule(spec, target), target);
    Random random(3);
    Layout layout;
    if (spec.residual == Residual::inplace) layout.alias = Alias::inplace;
    LaunchTensors tensors = make_tensors(plan, kManyRows, random, layout);
    const Result<Artifact> artifact = backend->compile(plan);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const Result<emulator::Counters> counters = run_emulated(*artifact, plan, tensors, {});
    ASSERT_TRUE(counters.ok()) << counters.error().message;
    const Traffic least = minimum_traffic(spec);
    const auto reads = static_cast<double>(kManyRows * least.read_bytes_per_row + least.weight_bytes);
    const auto writes = static_cast<double>(kManyRows * least.written_bytes_per_row);
    EXPECT_NEAR(static_cast<double>(counters->loads.footprint_bytes) / reads, 1, 0.02) << text;
    EXPECT_NEAR(static_cast<double>(counters->stores.footprint_bytes) / writes, 1, 0.02) << text;
  }
}

}  // namespace
}  // namespace headnorm::test
