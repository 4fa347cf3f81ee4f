// Random specs, shapes, strides, alignments, aliasings, schedules and instruction sets on the host, each against the reference.
//
// HEADNORM_TEST_SEED chooses other cases, HEADNORM_TEST_TRIAL runs one of them alone; a failure prints both.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/host_runner.h"
#include "tests/support/random_cases.h"

namespace headnorm::test {
namespace {

constexpr int kTrials = 2000, kShards = 4;  // shards run side by side under ctest

struct Case {
  Plan plan;
  std::int64_t rows = 0;
  Layout layout;
};

HostSchedule random_schedule(Random& random, Mode mode) {
  HostSchedule s;
  s.form = pick<HostForm>(random, {HostForm::reg, HostForm::rot, HostForm::pipe, HostForm::split, HostForm::split});
  s.heads = pick<int>(random, {1, 1, 2, 4, 8, 16, 16});
  s.block_bytes = pick<std::int64_t>(random, {1, 64, 300, 1024, 2048, 8192});
  s.chunk_lines = pick<int>(random, {1, 2, 4, 8});
  s.prefetch = pick<Prefetch>(random, {Prefetch::none, Prefetch::t0, Prefetch::t1, Prefetch::nta});
  s.prefetch_at = pick<PrefetchAt>(random, {PrefetchAt::read, PrefetchAt::write});
  s.prefetch_bytes = pick<std::int64_t>(random, {64, 4096, 16384});
  s.store = pick<StoreKind>(random, {StoreKind::nt, StoreKind::plain});
  if (mode == Mode::batch_invariant) return s;  // which fixes the rest
  s.accumulators = pick<int>(random, {1, 2, 4, 8});
  s.rsqrt = pick<RsqrtForm>(random, {RsqrtForm::exact, RsqrtForm::newton});
  s.unpack = pick<Unpack>(random, {Unpack::even_odd, Unpack::widen});
  return s;
}

Plan random_plan(Random& random, const KernelSpec& spec) {
  const Target target = make_host_target(pick(random, supported_isas()));
  for (int attempt = 0; attempt < 20; ++attempt) {
    const Result<Plan> plan = make_plan(spec, random_schedule(random, spec.mode), target);
    if (plan.ok()) return *plan;
  }
  return *make_plan(spec, default_schedule(spec, target), target);
}

Case random_case(Random& random) {
  const std::int64_t max_width = pick<std::int64_t>(random, {64, 64, 256, 256, 256, 700, 4096});
  const KernelSpec spec = random_spec(random, max_width, {Dtype::bf16, Dtype::f32, Dtype::bf16, Dtype::f32, Dtype::f16});
  const std::int64_t rows = pick<std::int64_t>(random, {1, 2, 3, 4, 5, 7, 8, 13});
  return {random_plan(random, spec), rows, random_layout(random, spec, Addresses::any)};
}

class RandomHost : public testing::TestWithParam<int> {};

TEST_P(RandomHost, EqualsTheReferenceWithinTheBound) {
  const std::uint64_t seed = test_seed();
  const char* only = std::getenv("HEADNORM_TEST_TRIAL");
  HostRunner runner;
  for (int trial = GetParam(); trial < kTrials; trial += kShards) {
    if (only != nullptr && trial != std::atoi(only)) continue;
    Random random(seed * 1'000'003 + static_cast<std::uint64_t>(trial));
    const Case test = random_case(random);
    SCOPED_TRACE(fmt::format(
        "HEADNORM_TEST_SEED={} HEADNORM_TEST_TRIAL={} random_host_test\nspec {}\nschedule {}\ntarget {} rows {} {}", seed, trial,
        to_text(test.plan.spec), to_text(test.plan.schedule), to_text(test.plan.target), test.rows, to_text(test.layout)));
    run_random_rows(runner, test.plan, test.rows, test.layout, random);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomHost, testing::Range(0, kShards));

}  // namespace
}  // namespace headnorm::test
