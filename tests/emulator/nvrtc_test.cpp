// The same plan through both compilers: NVRTC's PTX of the CUDA C gives the bits that LLVM's PTX gives, on the emulator with all
// its checks. A plan fixes the order of every sum and the form of every operation, so that nothing less is right.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/host_runner.h"
#include "tests/support/ptx_grid.h"
#include "tests/support/random_launches.h"

namespace headnorm::test {
namespace {

constexpr std::int64_t kMaxWidth = 8192;

LaunchTensors make_tensors(const Plan& plan, std::int64_t rows) {
  Layout layout;
  if (plan.spec.residual == Residual::inplace) layout.alias = Alias::inplace;
  LaunchTensors tensors(plan.spec, rows, layout);
  Random random(11);
  fill_random(random, tensors);
  tensors.seal();
  return tensors;
}

class Nvrtc : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = make_nvrtc_backend();
    if (!opened.ok()) GTEST_SKIP() << opened.error().message;
    nvrtc_ = std::move(*opened);
  }

  void compare(const Plan& plan) {
    SCOPED_TRACE(fmt::format("spec {}\nschedule {}\ntarget {}", to_text(plan.spec), to_text(plan.schedule), to_text(plan.target)));
    const std::int64_t rows = 2 * plan.gpu().rows_per_tile + 1;
    // A persistent kernel gets fewer blocks than tiles: one, or with clusters one cluster.
    const std::int64_t grid = plan.gpu_schedule().grid == GridForm::persistent ? plan.gpu().cluster : 0;
    LaunchTensors expected = make_tensors(plan, rows), got = make_tensors(plan, rows);
    ASSERT_EQ(run_ptx(*llvm_, plan, expected, emulator::Order::forward, grid), "");
    ASSERT_EQ(run_ptx(*nvrtc_, plan, got, emulator::Order::random, grid), "");
    ASSERT_EQ(got.damage(), "");
    ASSERT_TRUE(same_outputs(expected, got)) << "not the bits of LLVM's kernel";
  }

  std::unique_ptr<CodegenBackend> llvm_ = make_llvm_backend(), nvrtc_;
};

TEST_P(Nvrtc, GivesTheBitsOfLlvmForSpecsOfAllKinds) {
  const Target target = *parse_target(GetParam());
  Random random(test_seed());
  for (int trial = 0; trial < 24; ++trial) {
    const KernelSpec spec = random_spec(random, 1500, {Dtype::bf16, Dtype::f32, Dtype::f16});
    if (!make_plan(spec, default_schedule(spec, target), target).ok()) continue;  // a group that no block holds
    const std::vector<Plan> plans = plans_of_all_residencies(spec, target);
    compare(plans[static_cast<std::size_t>(trial) % plans.size()]);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Nvrtc, GivesTheBitsOfLlvmForSchedulesOfAllKinds) {
  const Target target = *parse_target(GetParam());
  std::vector<Plan> plans = sampled_plans(target, 48);
  const std::vector<Plan> defaults = default_plans(target);
  for (std::size_t i = 0; i < defaults.size(); i += 4) {
    if (defaults[i].spec.width <= kMaxWidth) plans.push_back(defaults[i]);
  }
  for (const Plan& plan : plans) {
    compare(plan);
    if (HasFatalFailure()) return;
  }
}

// Every way that rows move, with whole and with partial last chunks.
TEST_P(Nvrtc, GivesTheBitsOfLlvmForClustersStagesAndHints) {
  const Target target = *parse_target(GetParam());
  const char* const specs[] = {"width=2048,head_size=2048,residual=add:bf16,gate=seednorm,seed_heads=4",
                               "width=2112,head_size=1056,residual=add:f32,mode=safe-range", "width=2048,head_size=512"};
  const char* const schedules[] = {"lanes=64,vector=8,staging=async",
                                   "lanes=32,vector=8,staging=async,grid=persistent,stages=3,residency=shared",
                                   "lanes=32,vector=8,cache=stream,residency=reload",
                                   "lanes=64,vector=8,staging=bulk,grid=persistent,cache=stream",
                                   "lanes=16,vector=8,staging=bulk,cluster=2,residency=shared,launch=dependent",
                                   "lanes=16,vector=8,cluster=4,grid=persistent,weights=before,launch=weights_ahead"};
  int compared = 0;
  for (const char* spec : specs) {
    for (const char* schedule : schedules) {
      const auto plan = make_plan(*parse_spec(spec), *parse_schedule(schedule), target);
      if (!plan.ok()) continue;  // an instruction that the target does not have
      compare(*plan);
      if (HasFatalFailure()) return;
      ++compared;
    }
  }
  EXPECT_EQ(compared, target.has_bulk_copies() ? 18 : 6);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Nvrtc, testing::Values("sm_80", "sm_90+ptx80", "sm_100", "sm_100+ptx88"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace headnorm::test
