// Random specs, shapes, strides, alignments, aliasings, schedules and instruction sets on the host, each against the reference.
//
// HEADNORM_TEST_SEED chooses other cases, HEADNORM_TEST_TRIAL runs one of them alone; a failure prints both.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/choices.h"
#include "tests/support/host_runner.h"
#include "tests/support/random_launches.h"

namespace headnorm::test {
namespace {

constexpr int kTrials = 3000, kShards = 6;  // shards run side by side under ctest

Random random_of(int trial) { return Random(test_seed() * 1'000'003 + static_cast<std::uint64_t>(trial)); }

class RandomHost : public testing::TestWithParam<int> {};

TEST_P(RandomHost, EqualsTheReferenceWithinTheBound) {
  const char* only = std::getenv("HEADNORM_TEST_TRIAL");
  HostRunner runner;
  for (int trial = GetParam(); trial < kTrials; trial += kShards) {
    if (only != nullptr && trial != std::atoi(only)) continue;
    Random random = random_of(trial);
    const RandomLaunch test = random_launch(random, supported_isas());
    SCOPED_TRACE(
        fmt::format("HEADNORM_TEST_SEED={} HEADNORM_TEST_TRIAL={} random_host_test\n{}", test_seed(), trial, to_text(test)));
    run_random_rows(runner, test.plan, test.rows, test.layout, random);
    if (HasFailure()) return;
  }
}

TEST(RandomHostCases, HaveEveryChoice) {
  Choices choices = host_choices(supported_isas());
  for (int trial = 0; trial < kTrials; ++trial) {
    Random random = random_of(trial);
    const RandomLaunch launch = random_launch(random, supported_isas());
    count_choices(choices, launch.plan, launch.layout);
  }
  EXPECT_EQ(rarer_than(choices, 5), "");
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomHost, testing::Range(0, kShards));

}  // namespace
}  // namespace headnorm::test
