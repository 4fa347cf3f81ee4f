// Kernels for aarch64: random specs, schedules, strides and aliasings, compiled here, run under an emulator of the processor
// through the runtime's own loader and host device, and compared with the reference.
//
// HEADNORM_TEST_SEED chooses other cases, HEADNORM_TEST_TRIAL runs one of them alone; a failure prints both.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/artifact.h"
#include "generator/generator.h"
#include "tests/aarch64/launch_file.h"
#include "tests/support/choices.h"
#include "tests/support/host_runner.h"
#include "tests/support/random_launches.h"
#include "tests/support/temporary_directory.h"

namespace headnorm::test {
namespace {

constexpr int kTrials = 640, kShards = 4;  // a shard is one start of the emulator

// One launch, and what its result is compared with.
struct Trial {
  int number;
  RandomLaunch launch;
  LaunchTensors tensors;
  std::vector<RowValues> inputs;
};

Random random_of(int number) { return Random(test_seed() * 1'000'003 + static_cast<std::uint64_t>(number)); }

Trial make_trial(int number) {
  Random random = random_of(number);
  const RandomLaunch launch = random_launch(random, {HostIsa::aarch64});
  Trial trial{number, launch, LaunchTensors(launch.plan.spec, launch.rows, launch.layout), {}};
  trial.inputs = fill_random(random, trial.tensors);
  return trial;
}

Result<LaunchCase> make_case(CodegenBackend& backend, Trial& trial) {
  const Plan& plan = trial.launch.plan;
  HEADNORM_TRY(const Artifact artifact, backend.compile(plan));
  return LaunchCase{to_text(plan.spec), to_text(plan.schedule), to_text(plan.target), artifact.entry,
                    artifact.bytes,     trial.launch.rows,      trial.launch.layout,  images_of(trial.tensors)};
}

std::vector<LaunchResult> run_emulated(const std::string& cases) {
  const test::TemporaryDirectory directory;
  const std::string in = directory.path() / "cases", out = directory.path() / "results";
  std::ofstream(in, std::ios::binary) << cases;
  const std::string command = fmt::format("'{}' '{}' '{}' '{}'", HEADNORM_QEMU, HEADNORM_RUN_LAUNCHES, in, out);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file(out, std::ios::binary);
  return results_in({std::istreambuf_iterator<char>(file), {}});
}

class Aarch64 : public ::testing::TestWithParam<int> {};

TEST_P(Aarch64, EqualsTheReferenceWithinTheBound) {
  const char* only = std::getenv("HEADNORM_TEST_TRIAL");
  const auto backend = make_llvm_backend();
  std::vector<Trial> trials;
  std::string cases;
  for (int number = GetParam(); number < kTrials; number += kShards) {
    if (only != nullptr && number != std::atoi(only)) continue;
    trials.push_back(make_trial(number));
    const auto launch = make_case(*backend, trials.back());
    ASSERT_TRUE(launch.ok()) << launch.error().message << "\n" << to_text(trials.back().launch);
    cases += to_bytes(*launch);
  }
  const std::vector<LaunchResult> results = run_emulated(cases);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Trial& trial = trials[i];
    SCOPED_TRACE(fmt::format("HEADNORM_TEST_SEED={} HEADNORM_TEST_TRIAL={} aarch64_test\n{}", test_seed(), trial.number,
                             to_text(trial.launch)));
    ASSERT_LT(i, results.size()) << "the launch ended the program";
    ASSERT_EQ(results[i].error, "");
    ASSERT_TRUE(set_images(trial.tensors, results[i].images));
    for (std::int64_t row = 0; row < trial.launch.rows; ++row)
      ASSERT_EQ(check_row(trial.launch.plan, trial.tensors, row, trial.inputs[static_cast<std::size_t>(row)]), "");
  }
}

TEST(Aarch64Cases, HaveEveryChoice) {
  Choices choices = host_choices({HostIsa::aarch64});
  for (int number = 0; number < kTrials; ++number) {
    Random random = random_of(number);
    const RandomLaunch launch = random_launch(random, {HostIsa::aarch64});
    count_choices(choices, launch.plan, launch.layout);
  }
  EXPECT_EQ(rarer_than(choices, 5), "");
}

INSTANTIATE_TEST_SUITE_P(Shards, Aarch64, ::testing::Range(0, kShards));

}  // namespace
}  // namespace headnorm::test
