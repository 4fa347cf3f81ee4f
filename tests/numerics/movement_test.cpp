// Clusters, staging, cache hints and dependent launches: the same bits as without, under every order of warps and in any grid,
// within the bound of the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/host_runner.h"
#include "tests/support/random_launches.h"

namespace headnorm::test {
namespace {

struct Shape {
  const char* name;
  const char* spec;
  const char* order;  // lanes, vector and cluster: all that the order of a sum depends on
  std::size_t least;  // of the ways below that are legal
};

constexpr Shape kShapes[] = {
    {"Cluster", "width=2048,head_size=2048,x=f32,y=f32,weight=channel:f32", "lanes=32,vector=4,cluster=8", 14},
    {"ClusterTail", "width=2032,head_size=1016,residual=add:bf16", "lanes=8,vector=8,cluster=4", 14},
    {"ClusterOddTail", "width=1001,head_size=1001,residual=add:f32", "lanes=16,vector=4,cluster=4", 5},
    {"ClusterSeedOverTheWidth", "width=1152,head_size=288,residual=add:f32,gate=seednorm,seed_heads=1",
     "lanes=8,vector=8,cluster=2", 14},
    {"ClusterSafeRange", "width=512,head_size=512,mode=safe-range,residual=add:f32", "lanes=16,vector=8,cluster=2", 14},
    {"LargeCluster", "width=1024,head_size=1024,gate=seednorm", "lanes=32,vector=2,cluster=16", 9},
    {"HeadsInPlace", "width=576,head_size=72,residual=inplace:bf16,norm_input=unrounded", "lanes=8,vector=8,groups=1,rows=3", 14},
    {"Narrow", "width=300,head_size=100,x=f16,y=f16", "lanes=16,vector=2", 9},
};

constexpr const char* kWays[] = {
    "residency=reload,cache=stream",
    "residency=shared,grid=persistent,cache=stream,launch=dependent",
    "grid=persistent,weights=before,launch=weights_ahead",
    "weights=before,launch=weights_ahead,cache=stream",
    "launch=dependent",
    "staging=async",
    "staging=async,residency=shared,cache=stream",
    "staging=async,grid=persistent",
    "staging=async,grid=persistent,stages=5,residency=shared,launch=dependent",
    "staging=async,grid=persistent,stages=3,weights=before,launch=weights_ahead",
    "staging=bulk",
    "staging=bulk,residency=shared,cache=stream",
    "staging=bulk,grid=persistent",
    "staging=bulk,grid=persistent,stages=5,residency=shared,launch=dependent",
    "staging=bulk,grid=persistent,stages=3,weights=before,cache=stream,launch=weights_ahead",
};

class Movement : public testing::TestWithParam<Shape> {
 protected:
  static constexpr std::int64_t kRows = 11;

  Result<Plan> plan_of(const std::string& way) const {
    return make_plan(*parse_spec(GetParam().spec), *parse_schedule(std::string(GetParam().order) + (way.empty() ? "" : ",") + way),
                     target_);
  }

  LaunchTensors made(const KernelSpec& spec) const {
    Layout layout;
    for (Operand operand : kOperands) {
      if (is_row_operand(operand) && has_operand(spec, operand)) layout.stride(operand) = spec.width + 96;
    }
    if (spec.residual == Residual::inplace) layout.alias = Alias::inplace;
    LaunchTensors tensors(spec, kRows, layout);
    Random random(11);
    inputs_of(random, tensors);
    return tensors;
  }

  static std::vector<RowValues> inputs_of(Random& random, LaunchTensors& tensors) {
    std::vector<RowValues> inputs = fill_random(random, tensors);
    tensors.seal();
    return inputs;
  }

  // Of a persistent kernel: `share` clusters.
  static std::int64_t grid_of(const Plan& plan, std::int64_t share) {
    return plan.gpu_schedule().grid == GridForm::persistent ? share * plan.gpu().cluster : 0;
  }

  const Target target_ = *parse_target("sm_100+ptx88");
  std::unique_ptr<CodegenBackend> backend_ = make_llvm_backend();
};

TEST_P(Movement, EveryWayGivesTheSameBitsInEveryOrderOfWarps) {
  const Plan plain = *plan_of("");
  LaunchTensors expected = made(plain.spec);
  std::vector<RowValues> inputs;
  for (std::int64_t row = 0; row < kRows; ++row) inputs.push_back(expected.inputs(row));
  ASSERT_EQ(run_serving_plan(*backend_, plain, expected), "");
  for (std::int64_t row = 0; row < kRows; ++row)
    ASSERT_EQ(check_row(plain, expected, row, inputs[static_cast<std::size_t>(row)]), "");
  std::size_t legal = 0;
  for (const char* way : kWays) {
    const Result<Plan> plan = plan_of(way);
    if (!plan.ok()) continue;
    ++legal;
    SCOPED_TRACE(to_text(plan->schedule));
    std::int64_t share = 1;
    for (emulator::Order order : {emulator::Order::forward, emulator::Order::reverse, emulator::Order::random}) {
      LaunchTensors tensors = made(plan->spec);
      ASSERT_TRUE(satisfies_alignment(*plan, tensors.arguments()));
      ASSERT_EQ(run_ptx(*backend_, *plan, tensors, order, grid_of(*plan, share++)), "");
      ASSERT_EQ(tensors.damage(), "");
      ASSERT_TRUE(same_outputs(expected, tensors));
    }
    const Plan unaligned = *make_plan(plan->spec, unaligned_schedule(*plan), plan->target);
    LaunchTensors tensors = made(plan->spec);
    ASSERT_EQ(run_ptx(*backend_, unaligned, tensors, emulator::Order::forward), "");
    ASSERT_TRUE(same_outputs(expected, tensors)) << to_text(unaligned.schedule);
  }
  EXPECT_GE(legal, GetParam().least);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Movement, testing::ValuesIn(kShapes), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace headnorm::test
