// Random specs, shapes, strides, alignments, aliasings, schedules and instruction sets on the host, each against the reference.
//
// HEADNORM_TEST_SEED chooses other cases, HEADNORM_TEST_TRIAL runs one of them alone; a failure prints both.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/host_runner.h"
#include "tests/support/random_launches.h"

namespace headnorm::test {
namespace {

constexpr int kTrials = 2000, kShards = 4;  // shards run side by side under ctest

class RandomHost : public testing::TestWithParam<int> {};

TEST_P(RandomHost, EqualsTheReferenceWithinTheBound) {
  const std::uint64_t seed = test_seed();
  const char* only = std::getenv("HEADNORM_TEST_TRIAL");
  HostRunner runner;
  for (int trial = GetParam(); trial < kTrials; trial += kShards) {
    if (only != nullptr && trial != std::atoi(only)) continue;
    Random random(seed * 1'000'003 + static_cast<std::uint64_t>(trial));
    const RandomLaunch test = random_launch(random, supported_isas());
    SCOPED_TRACE(fmt::format("HEADNORM_TEST_SEED={} HEADNORM_TEST_TRIAL={} random_host_test\n{}", seed, trial, to_text(test)));
    run_random_rows(runner, test.plan, test.rows, test.layout, random);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomHost, testing::Range(0, kShards));

}  // namespace
}  // namespace headnorm::test
