// Random specs, shapes, strides, alignments, aliasings and schedules as PTX, run by the emulator, each against the reference.
//
// HEADNORM_TEST_SEED chooses other cases, HEADNORM_TEST_TRIAL runs one of them alone; a failure prints both.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "generator/generator.h"
#include "tests/support/choices.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/host_runner.h"
#include "tests/support/random_launches.h"

namespace headnorm::test {
namespace {

constexpr int kTrials = 1600, kShards = 4;  // shards run side by side under ctest

struct Case {
  Plan plan;
  std::int64_t rows = 0;
  Layout layout;
  std::int64_t grid_share = 1;  // a persistent kernel gets this part of the blocks that it has work for; 0: more than those
};

Target random_target(Random& random) {
  Target target = pick(random, gpu_targets());
  if (random() % 2 == 0) target.ptx = target.sm >= 100 ? pick<int>(random, {88, 90}) : pick<int>(random, {80, 90});
  return target;
}

GpuSchedule random_schedule(Random& random, const Target& target) {
  GpuSchedule s;
  s.lanes = 1 << random() % 9;
  s.vector_elements = 1 << random() % 5;
  s.block_threads = pick<int>(random, {32, 64, 96, 128, 256});
  s.groups = pick<int>(random, {0, 0, 1, 2, 3, 4});
  s.rows = pick<int>(random, {0, 0, 1, 2, 3, 5});
  s.residency = pick<Residency>(random, {Residency::registers, Residency::registers, Residency::shared, Residency::reload});
  s.unroll = pick<int>(random, {0, 0, 1, 2, 3, 8});
  s.grid = pick<GridForm>(random, {GridForm::once, GridForm::persistent});
  s.weights = pick<WeightLoad>(random, {WeightLoad::after, WeightLoad::before});
  s.access_bytes =
      pick<int>(random, {2, 4, 8, 16, target.max_access_bytes(), target.max_access_bytes(), target.max_access_bytes()});
  s.cluster = target.has_clusters() ? pick<int>(random, {1, 1, 1, 1, 2, 4, 8, 16, 16}) : 1;
  if (s.cluster > 1) {  // few enough lanes and elements for all lanes of the cluster to have some
    s.lanes = s.cluster << random() % 2;
    s.vector_elements = 1 << random() % 3;
  }
  s.staging = pick<Staging>(random, {Staging::none, Staging::none, Staging::async, Staging::bulk});
  s.stages = pick<int>(random, {0, 0, 2, 3, 8});
  s.cache = pick<CacheUse>(random, {CacheUse::plain, CacheUse::plain, CacheUse::stream});
  if (target.has_dependent_launch())
    s.launch = pick<LaunchForm>(random, {LaunchForm::plain, LaunchForm::plain, LaunchForm::dependent, LaunchForm::weights_ahead});
  return s;
}

Plan random_plan(Random& random, const KernelSpec& spec) {
  const Target target = random_target(random);
  for (int attempt = 0; attempt < 30; ++attempt) {
    GpuSchedule s = random_schedule(random, target);
    if (spec.mode == Mode::batch_invariant) {  // which fixes them
      const GpuSchedule fixed = std::get<GpuSchedule>(default_schedule(spec, target));
      s.lanes = fixed.lanes;
      s.vector_elements = fixed.vector_elements;
      s.cluster = fixed.cluster;
    }
    const Result<Plan> plan = make_plan(spec, s, target);
    if (plan.ok()) return *plan;
  }
  return *make_plan(spec, default_schedule(spec, target), target);
}

Case random_case(Random& random) {
  const std::int64_t max_width = pick<std::int64_t>(random, {16, 64, 64, 256, 256, 700, 2048});
  KernelSpec spec = random_spec(random, max_width, {Dtype::bf16, Dtype::f32, Dtype::f16});
  while (!make_plan(spec, default_schedule(spec, make_gpu_target(80)), make_gpu_target(80)).ok())
    spec = random_spec(random, max_width, {Dtype::bf16, Dtype::f32, Dtype::f16});  // a group that no block holds
  return {random_plan(random, spec), pick<std::int64_t>(random, {1, 2, 3, 4, 5, 7, 12}),
          random_layout(random, spec, Addresses::aligned), pick<std::int64_t>(random, {0, 1, 2, 3, 1000})};
}

std::vector<RowValues> random_inputs(Random& random, const Case& test) {
  std::vector<RowValues> inputs(static_cast<std::size_t>(test.rows));
  RowValues values;
  fill_random_weights(random, test.plan.spec, values);
  for (RowValues& row : inputs) {
    fill_random_row(random, test.plan.spec, values);
    row = values;
  }
  return inputs;
}

LaunchTensors make_tensors(const Case& test, const std::vector<RowValues>& inputs) {
  LaunchTensors tensors(test.plan.spec, test.rows, test.layout);
  tensors.set_weights(inputs[0]);
  for (std::size_t row = 0; row < inputs.size(); ++row) tensors.set_row(static_cast<std::int64_t>(row), inputs[row]);
  tensors.seal();
  return tensors;
}

std::int64_t grid_of(const Plan& plan, std::int64_t rows, std::int64_t share) {
  const std::int64_t tiles = tile_count(plan, rows);
  if (plan.gpu_schedule().grid == GridForm::once) return grid_blocks(plan, rows);
  return (share == 0 ? tiles + 2 : std::max<std::int64_t>(1, tiles / share)) * plan.gpu().cluster;
}

void run_case(CodegenBackend& backend, Random& random, const Case& test) {
  const std::vector<RowValues> made = random_inputs(random, test);
  LaunchTensors tensors = make_tensors(test, made);
  std::vector<RowValues> inputs;  // as rounded to the dtypes
  for (std::int64_t row = 0; row < test.rows; ++row) inputs.push_back(tensors.inputs(row));
  const Plan unaligned = *make_plan(test.plan.spec, unaligned_schedule(test.plan), test.plan.target);
  const Plan served = satisfies_alignment(test.plan, tensors.arguments()) ? test.plan : unaligned;
  ASSERT_EQ(run_ptx(backend, served, tensors, emulator::Order::forward, grid_of(served, test.rows, test.grid_share)), "");
  ASSERT_EQ(tensors.damage(), "");
  for (std::int64_t row = 0; row < test.rows; ++row)
    ASSERT_EQ(check_row(served, tensors, row, inputs[static_cast<std::size_t>(row)]), "");

  const auto other = pick<emulator::Order>(random, {emulator::Order::reverse, emulator::Order::random});
  LaunchTensors again = make_tensors(test, made);
  ASSERT_EQ(run_ptx(backend, unaligned, again, other), "");
  EXPECT_TRUE(same_outputs(tensors, again)) << "not bit-equal to narrow accesses, another grid and another order of threads";
}

Random random_of(int trial) { return Random(test_seed() * 1'000'003 + static_cast<std::uint64_t>(trial)); }

class RandomPtx : public testing::TestWithParam<int> {};

TEST_P(RandomPtx, EqualsTheReferenceWithinTheBound) {
  const char* only = std::getenv("HEADNORM_TEST_TRIAL");
  const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
  for (int trial = GetParam(); trial < kTrials; trial += kShards) {
    if (only != nullptr && trial != std::atoi(only)) continue;
    Random random = random_of(trial);
    const Case test = random_case(random);
    SCOPED_TRACE(fmt::format(
        "HEADNORM_TEST_SEED={} HEADNORM_TEST_TRIAL={} random_ptx_test\nspec {}\nschedule {}\ntarget {} rows {} {}", test_seed(),
        trial, to_text(test.plan.spec), to_text(test.plan.schedule), to_text(test.plan.target), test.rows, to_text(test.layout)));
    run_case(*backend, random, test);
    if (HasFailure()) return;
  }
}

TEST(RandomPtxCases, HaveEveryChoice) {
  Choices choices = gpu_choices();
  for (int trial = 0; trial < kTrials; ++trial) {
    Random random = random_of(trial);
    const Case test = random_case(random);
    count_choices(choices, test.plan, test.layout);
  }
  EXPECT_EQ(rarer_than(choices, 2), "");
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomPtx, testing::Range(0, kShards));

}  // namespace
}  // namespace headnorm::test
