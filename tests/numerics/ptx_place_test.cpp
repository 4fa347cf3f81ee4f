// A row of a GPU kernel has the same bits whatever the row count, its place, the tile, the grid, the residency and the order in
// which warps run; and the machine that says so sees a barrier that is missing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/random_cases.h"

namespace headnorm::test {
namespace {

const Target kTarget = make_gpu_target(90);

struct Shape {
  const char* name;
  const char* spec;
  const char* lanes;  // and vector: all that the order of a sum depends on
};

constexpr Shape kShapes[] = {
    {"WarpPerHead", "width=512,head_size=128,x=bf16,residual=add:bf16", "lanes=8,vector=4"},
    {"BlockPerHead", "width=1024,head_size=1024,x=f32,y=f32,weight=channel:f32", "lanes=128,vector=4"},
    {"SeedOverTheWidth", "width=576,head_size=144,x=f16,y=bf16,residual=add:f32,gate=seednorm,seed_heads=1", "lanes=16,vector=4"},
};

class PtxPlace : public testing::TestWithParam<Shape> {
 protected:
  Plan plan_of(const std::string& rest) const {
    const Result<Plan> plan =
        make_plan(*parse_spec(GetParam().spec), *parse_schedule(fmt::format("{},{}", GetParam().lanes, rest)), kTarget);
    EXPECT_TRUE(plan.ok()) << rest << ": " << plan.error().message;
    return *plan;
  }

  // Row `place` of `rows` holds the row under test.
  LaunchTensors tensors_of(const KernelSpec& spec, std::int64_t rows, std::int64_t place) {
    Random random(7);
    RowValues tested, other;
    fill_random_weights(random, spec, tested);
    fill_random_row(random, spec, tested);
    other = tested;
    LaunchTensors tensors(spec, rows, Layout{});
    tensors.set_weights(tested);
    for (std::int64_t row = 0; row < rows; ++row) {
      fill_random_row(random, spec, other);
      tensors.set_row(row, row == place ? tested : other);
    }
    tensors.seal();
    return tensors;
  }

  static std::string outputs_of(LaunchTensors& tensors, std::int64_t row) {
    std::string bytes;
    for (Operand operand : {Operand::y, Operand::residual_out}) {
      if (!has_operand(tensors.spec(), operand)) continue;
      for (const auto byte : tensors.tensor(operand).row_bytes(row)) bytes.push_back(static_cast<char>(byte));
    }
    return bytes;
  }

  std::unique_ptr<CodegenBackend> backend_ = make_llvm_backend();
};

TEST_P(PtxPlace, ARowHasTheSameBitsEverywhere) {
  std::string expected;
  for (const char* residency : {"registers", "shared", "reload"}) {
    for (const char* tile : {"rows=1", "rows=3,groups=1", "rows=2"}) {
      for (const char* grid : {"once", "persistent"}) {
        for (const char* weights : {"after", "before"}) {
          const Plan plan = plan_of(fmt::format("{},residency={},grid={},weights={}", tile, residency, grid, weights));
          SCOPED_TRACE(to_text(plan.schedule));
          int run = 0;
          for (const auto& [rows, place] : {std::pair(1, 0), std::pair(5, 0), std::pair(5, 2), std::pair(7, 6)}) {
            LaunchTensors tensors = tensors_of(plan.spec, rows, place);
            const bool is_persistent = plan.gpu_schedule().grid == GridForm::persistent;
            const std::int64_t blocks = is_persistent ? 1 + run % 3 : 0;
            const auto order = static_cast<emulator::Order>(run++ % 3);
            ASSERT_EQ(run_ptx(*backend_, plan, tensors, order, blocks), "");
            if (expected.empty()) expected = outputs_of(tensors, place);
            ASSERT_TRUE(outputs_of(tensors, place) == expected) << rows << " rows, place " << place << ", grid " << blocks;
          }
        }
      }
    }
  }
}

TEST_P(PtxPlace, ThreeOrdersOfWarpsGiveTheSameBits) {
  for (const char* schedule : {"rows=2,grid=persistent,weights=before", "rows=1,residency=shared,grid=persistent"}) {
    const Plan plan = plan_of(schedule);
    LaunchTensors forward = tensors_of(plan.spec, 9, 4);
    ASSERT_EQ(run_ptx(*backend_, plan, forward, emulator::Order::forward, 2), "");
    for (emulator::Order order : {emulator::Order::reverse, emulator::Order::random}) {
      LaunchTensors other = tensors_of(plan.spec, 9, 4);
      ASSERT_EQ(run_ptx(*backend_, plan, other, order, 2), "");
      EXPECT_TRUE(same_outputs(forward, other)) << schedule;
    }
  }
}

// A block that takes a second tile writes into the sums of the first; each of the two barriers is needed.
TEST_P(PtxPlace, EachBarrierOfAPersistentBlockIsNeeded) {
  const Plan plan = plan_of("rows=1,grid=persistent");
  const Artifact whole = *backend_->compile(plan);
  const std::string& ptx = whole.bytes;
  if (plan.gpu().shared_bytes == 0) {
    EXPECT_EQ(ptx.find("bar.sync"), std::string::npos);
    return;
  }
  const std::size_t first = ptx.find("bar.sync"), second = ptx.find("bar.sync", first + 1);
  ASSERT_NE(second, std::string::npos);
  EXPECT_EQ(ptx.find("bar.sync", second + 1), std::string::npos);
  for (std::size_t at : {first, second}) {
    Artifact without = whole;
    without.bytes.replace(at, ptx.find('\n', at) - at, "");
    LaunchTensors tensors = tensors_of(plan.spec, 4, 0);
    const Result<emulator::Counters> ran = run_emulated(without, plan, tensors, {}, 1);
    ASSERT_FALSE(ran.ok()) << "not noticed";
    EXPECT_NE(ran.error().message.find("shared memory"), std::string::npos) << ran.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PtxPlace, testing::ValuesIn(kShapes), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace headnorm::test
