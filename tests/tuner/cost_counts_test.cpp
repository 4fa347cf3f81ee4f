// What the cost model counts from a plan, against what the emulator counts when the kernel runs: presets times a sample of
// schedules.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "cli/presets.h"
#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tuner/cost_model/tile_counts.h"
#include "tuner/random.h"
#include "tuner/search_space.h"

namespace headnorm {
namespace {

constexpr double kMostBytesError = 0.02;
constexpr double kMostInstructionsError = 0.10;
constexpr int kSchedules = 6;  // of each spec, besides the default

// The specs of the presets, each once, with what a user adds to them in turn.
std::vector<KernelSpec> preset_specs() {
  std::vector<KernelSpec> specs;
  std::set<std::string> known;
  for (const cli::Preset& preset : cli::presets()) {
    const Result<KernelSpec> spec = cli::preset_spec(preset);
    if (!spec.ok() || !known.insert(std::to_string(spec->width) + "/" + std::to_string(spec->head_size)).second) continue;
    KernelSpec varied = *spec;
    if (specs.size() % 3 == 1) varied.residual = Residual::add;
    if (specs.size() % 4 >= 2) {
      varied.gate = Gate::seednorm;
      varied.seed_heads = varied.heads();
    }
    if (specs.size() % 5 == 3) varied.x_dtype = varied.residual_dtype = varied.weight_dtype = varied.y_dtype = Dtype::f32;
    if (specs.size() % 5 == 4) varied.x_dtype = varied.residual_dtype = varied.weight_dtype = varied.y_dtype = Dtype::f16;
    specs.push_back(*make_spec(varied));
  }
  return specs;
}

// Staging, clusters and hints to the caches are outside of what the counts promise (docs/cost-model.md).
bool is_counted(const Plan& plan) {
  const GpuSchedule& s = plan.gpu_schedule();
  return s.staging == Staging::none && s.cluster == 1 && s.cache == CacheUse::plain;
}

std::vector<Plan> sampled_plans(const KernelSpec& spec, const Target& target, Random& random) {
  SearchSpace space = *build_search_space(spec, target);
  std::erase_if(space.plans, [](const Plan& plan) { return !is_counted(plan); });
  std::vector<Plan> plans = {space.plans.front()};
  for (int i = 0; i < kSchedules; ++i) {
    const Plan& plan = space.plans[random.below(space.plans.size())];
    std::vector<Plan> refined = refine(plan);
    std::erase_if(refined, [](const Plan& refinement) { return !is_counted(refinement); });
    plans.push_back(refined.empty() || i == 0 ? plan : refined[random.below(refined.size())]);
  }
  return plans;
}

std::uint64_t issued(const emulator::Counters& counters) {
  std::uint64_t sum = 0;
  for (const emulator::Counters::Instructions& kind : counters.instructions) sum += kind.warps;
  return sum;
}

std::uint64_t of_kind(const emulator::Counters& counters, emulator::Kind kind) {
  return counters.instructions[static_cast<std::size_t>(kind)].warps;
}

std::uint64_t moved_bytes(const emulator::Counters& counters) {
  return (counters.loads.sectors + counters.stores.sectors) * static_cast<std::uint64_t>(kSectorBytes);
}

double error_of(double counted, double modelled) { return modelled / counted - 1; }

// Of PTX, as the emulator counts.
double instructions_of(const LaunchCounts& modelled) { return modelled.warp_instructions + modelled.warp_pairings; }

emulator::LaunchOptions unchecked() {
  emulator::LaunchOptions options;
  options.checks = {emulator::Check::off, emulator::Check::off, emulator::Check::off, emulator::Check::off};
  return options;
}

class CostCounts : public ::testing::TestWithParam<const char*> {
 protected:
  Result<emulator::Counters> run(const Plan& plan, std::int64_t rows, std::int64_t blocks) {
    HEADNORM_TRY(const Artifact artifact, backend_->compile(plan));
    test::LaunchTensors tensors(plan.spec, rows, {});
    return test::run_emulated(artifact, plan, tensors, unchecked(), blocks);
  }

  std::unique_ptr<CodegenBackend> backend_ = make_llvm_backend();
};

TEST_P(CostCounts, OfPresetsAreThoseOfTheEmulator) {
  const Target target = *parse_target(GetParam());
  Random random(7);
  double worst_bytes = 0, worst_instructions = 0;
  int plans = 0;
  for (const KernelSpec& spec : preset_specs()) {
    for (const Plan& plan : sampled_plans(spec, target, random)) {
      SCOPED_TRACE(to_text(spec) + " " + to_text(plan.schedule));
      const std::int64_t rows = 2 * plan.gpu().rows_per_tile;
      const std::int64_t blocks = tile_count(plan, rows);
      const Result<emulator::Counters> counted = run(plan, rows, blocks);
      ASSERT_TRUE(counted.ok()) << counted.error().message;
      const LaunchCounts modelled = count_launch(plan, count_tile(plan), rows, blocks);
      const double bytes = error_of(static_cast<double>(moved_bytes(*counted)), static_cast<double>(modelled.moved_bytes));
      const double footprint = error_of(static_cast<double>(counted->loads.footprint_bytes + counted->stores.footprint_bytes),
                                        static_cast<double>(modelled.footprint_bytes));
      const double instructions = error_of(static_cast<double>(issued(*counted)), instructions_of(modelled));
      EXPECT_LE(std::abs(bytes), kMostBytesError) << moved_bytes(*counted) << " counted, " << modelled.moved_bytes << " modelled";
      EXPECT_LE(std::abs(footprint), kMostBytesError);
      EXPECT_LE(std::abs(instructions), kMostInstructionsError)
          << issued(*counted) << " counted, " << instructions_of(modelled) << " modelled";
      worst_bytes = std::max(worst_bytes, std::abs(bytes));
      worst_instructions = std::max(worst_instructions, std::abs(instructions));
      ++plans;
    }
  }
  EXPECT_GE(plans, 150);
  std::cout << plans << " plans, worst error of bytes " << worst_bytes << ", of instructions " << worst_instructions << "\n";
}

// Blocks that go on to a second tile and more.
TEST_P(CostCounts, OfPersistentBlocksFollowTheirTiles) {
  const Target target = *parse_target(GetParam());
  for (const char* text : {"lanes=32,vector=8,block=256,grid=persistent,weights=before", "lanes=16,vector=8,grid=persistent",
                           "lanes=64,vector=4,grid=persistent", "lanes=16,vector=8,groups=3,grid=persistent,weights=before"}) {
    SCOPED_TRACE(text);
    KernelSpec spec;
    spec.width = 768;
    spec.head_size = 256;
    const Plan plan = *make_plan(*make_spec(spec), *parse_schedule(text), target);
    const std::int64_t rows = 24 * plan.gpu().rows_per_tile;
    const std::int64_t blocks = 4;
    const Result<emulator::Counters> counted = run(plan, rows, blocks);
    ASSERT_TRUE(counted.ok()) << counted.error().message;
    const LaunchCounts modelled = count_launch(plan, count_tile(plan), rows, blocks);
    EXPECT_LE(std::abs(error_of(static_cast<double>(moved_bytes(*counted)), static_cast<double>(modelled.moved_bytes))),
              kMostBytesError);
    EXPECT_LE(std::abs(error_of(static_cast<double>(issued(*counted)), instructions_of(modelled))), kMostInstructionsError)
        << issued(*counted) << " counted, " << instructions_of(modelled) << " modelled";
  }
}

// Barriers in the text of a kernel, none of them in a loop.
std::size_t barriers_of(const std::string& ptx) {
  const std::regex barrier(R"(\tbar(rier\.cluster)?\.)");
  return static_cast<std::size_t>(std::distance(std::sregex_iterator(ptx.begin(), ptx.end(), barrier), std::sregex_iterator()));
}

// Peaks are found in a sweep of their own, which meets as that of the sums does: in the warp, the block and the cluster.
TEST_P(CostCounts, OfSafeRangeHaveAMeetingForThePeaksToo) {
  const Target target = *parse_target(GetParam());
  int compared = 0;
  for (const auto& [shape, schedule] :
       {std::pair("width=1024,head_size=1024", "lanes=32,vector=8"), std::pair("width=8192,head_size=8192", "lanes=256,vector=8"),
        std::pair("width=8192,head_size=8192", "lanes=128,vector=8,cluster=4")}) {
    for (const char* gate : {"", ",gate=seednorm"}) {
      const std::string spec = std::string(shape) + ",mode=safe-range" + gate;
      SCOPED_TRACE(spec + " " + schedule);
      const Result<Plan> plan = make_plan(*parse_spec(spec), *parse_schedule(schedule), target);
      if (!plan.ok()) continue;  // sm_80 has no clusters
      const bool has_cluster = plan->gpu().cluster > 1;
      const std::int64_t rows = 2 * plan->gpu().rows_per_tile;
      const Result<emulator::Counters> counted = run(*plan, rows, 0);
      ASSERT_TRUE(counted.ok()) << counted.error().message;
      const TileCounts counts = count_tile(*plan);
      const double warps = static_cast<double>(grid_blocks(*plan, rows)) * plan->gpu().block_threads / 32;
      EXPECT_EQ(static_cast<double>(of_kind(*counted, emulator::Kind::shuffle)), warps * counts.tile.shuffle);
      EXPECT_EQ(static_cast<double>(barriers_of(backend_->compile(*plan)->bytes)), counts.tile.barrier);
      EXPECT_EQ(counts.waits.cluster_barriers, has_cluster ? 2 : 0);
      EXPECT_LE(std::abs(error_of(static_cast<double>(issued(*counted)),
                                  instructions_of(count_launch(*plan, counts, rows, grid_blocks(*plan, rows))))),
                kMostInstructionsError);
      ++compared;
    }
  }
  EXPECT_EQ(compared, target.has_clusters() ? 6 : 4);
}

// Products of safe-range count once where they are of two elements: u times the scales, and what the last sweep makes of them.
TEST_P(CostCounts, OfSafeRangeTakeTwoElementsAtATimeWhereTheTargetDoes) {
  const Target target = *parse_target(GetParam());
  for (const char* text : {"width=8192,head_size=8192,mode=safe-range", "width=8192,head_size=8192,mode=safe-range,gate=seednorm",
                           "width=8192,head_size=8192,mode=safe-range,residual=add:bf16,norm_input=unrounded",
                           "width=8192,head_size=8192,mode=safe-range,residual=add:bf16,residual_scale=0.5,gate=seednorm"}) {
    SCOPED_TRACE(text);
    const Plan plan = *make_plan(*parse_spec(text), *parse_schedule("lanes=256,vector=8"), target);
    const Result<emulator::Counters> counted = run(plan, 2, 0);
    ASSERT_TRUE(counted.ok()) << counted.error().message;
    const LaunchCounts modelled = count_launch(plan, count_tile(plan), 2, grid_blocks(plan, 2));
    const double warps = static_cast<double>(grid_blocks(plan, 2)) * plan.gpu().block_threads / 32;
    const double arithmetic = warps * count_tile(plan).tile.arithmetic;
    const std::uint64_t floating = of_kind(*counted, emulator::Kind::floating);
    EXPECT_LE(std::abs(error_of(static_cast<double>(floating), arithmetic)), 0.05) << floating << " " << arithmetic;
    EXPECT_LE(std::abs(error_of(static_cast<double>(issued(*counted)), instructions_of(modelled))), kMostInstructionsError);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CostCounts, ::testing::Values("sm_80", "sm_90", "sm_100+ptx88", "sm_120+ptx88"),
                         [](const auto& test) { return std::string(test.param).substr(0, std::string(test.param).find('+')); });

}  // namespace
}  // namespace headnorm
