// Mode batch-invariant: all schedules of a spec and target give the same bits, whatever was tuned for which row count.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "generator/generator.h"
#include "runtime/headnorm.h"
#include "tests/support/database_samples.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/host_runner.h"
#include "tests/support/temporary_directory.h"
#include "tuner/search_space.h"

namespace headnorm::test {
namespace {

// Tails, several parts in a group, a residual, every way of unpacking.
constexpr const char* kSpecs[] = {
    "width=192,head_size=64,gate=seednorm,mode=batch-invariant",
    "width=288,head_size=144,x=f32,y=bf16,residual=add:bf16,gate=seednorm,seed_heads=1,mode=batch-invariant",
    "width=87,head_size=29,x=f16,y=f16,weight=shared:f32,rounding=llama,mode=batch-invariant",
};

// Every schedule that the tuner can come to.
std::vector<Plan> all_plans(const KernelSpec& spec, const Target& target) {
  std::vector<Plan> plans = build_search_space(spec, target)->plans;
  const std::vector<Plan> refined = refine(plans.front());
  plans.insert(plans.end(), refined.begin(), refined.end());
  return plans;
}

struct Data {
  RowValues weights;
  std::vector<RowValues> rows;
};

Data make_data(const KernelSpec& spec, std::size_t rows) {
  Random random(test_seed());
  Data data;
  fill_random_weights(random, spec, data.weights);
  for (std::size_t row = 0; row < rows; ++row) {
    data.rows.push_back(data.weights);
    fill_random_row(random, spec, data.rows.back());
  }
  return data;
}

LaunchTensors make_tensors(const KernelSpec& spec, const Data& data) {
  LaunchTensors tensors(spec, static_cast<std::int64_t>(data.rows.size()), {});
  tensors.set_weights(data.weights);
  for (std::size_t row = 0; row < data.rows.size(); ++row) tensors.set_row(static_cast<std::int64_t>(row), data.rows[row]);
  tensors.seal();
  return tensors;
}

TEST(BatchInvariance, AllHostSchedulesGiveTheSameBits) {
  HostRunner runner;
  for (const char* text : kSpecs) {
    const KernelSpec spec = *parse_spec(text);
    const Data data = make_data(spec, 5);
    for (HostIsa isa : supported_isas()) {
      const std::vector<Plan> plans = all_plans(spec, make_host_target(isa));
      EXPECT_GT(plans.size(), 20u) << text << " leaves the tuner little choice";
      LaunchTensors first = make_tensors(spec, data);
      runner.run(plans[0], first);
      for (const Plan& plan : plans) {
        LaunchTensors other = make_tensors(spec, data);
        runner.run(plan, other);
        ASSERT_TRUE(same_outputs(first, other)) << text << " " << to_text(plan.target) << " " << to_text(plan.schedule);
      }
    }
  }
}

TEST(BatchInvariance, AllGpuSchedulesGiveTheSameBits) {
  const auto backend = make_llvm_backend();
  for (const char* text : kSpecs) {
    const KernelSpec spec = *parse_spec(text);
    const Data data = make_data(spec, 3);
    const std::vector<Plan> plans = all_plans(spec, make_gpu_target(90));
    EXPECT_GE(plans.size(), 4u) << text << " leaves the tuner little choice";
    LaunchTensors first = make_tensors(spec, data);
    ASSERT_EQ(run_ptx(*backend, plans[0], first, emulator::Order::forward), "");
    for (const Plan& plan : plans) {
      LaunchTensors other = make_tensors(spec, data);
      ASSERT_EQ(run_ptx(*backend, plan, other, emulator::Order::forward), "");
      ASSERT_TRUE(same_outputs(first, other)) << text << " " << to_text(plan.schedule);
    }
  }
}

// Without the mode, the same schedules do not: the tests above can fail.
TEST(BatchInvariance, SchedulesOfTheDefaultModeDiffer) {
  HostRunner runner;
  const KernelSpec spec = *parse_spec("width=1024,head_size=512,x=f32,y=f32,weight=none");
  const Data data = make_data(spec, 5);
  const std::vector<Plan> plans = all_plans(spec, make_host_target(detect_host_isa()));
  LaunchTensors first = make_tensors(spec, data);
  runner.run(plans[0], first);
  bool differs = false;
  for (const Plan& plan : plans) {
    LaunchTensors other = make_tensors(spec, data);
    runner.run(plan, other);
    differs = differs || !same_outputs(first, other);
  }
  EXPECT_TRUE(differs);
}

TEST(BatchInvariance, RefusesOtherOrdersByName) {
  const KernelSpec spec = *parse_spec("width=4096,head_size=256,mode=batch-invariant");
  const auto message = [&](const char* schedule, const char* target) {
    const Result<Plan> plan = make_plan(spec, *parse_schedule(schedule), *parse_target(target));
    return plan.ok() ? std::string("legal") : plan.error().message;
  };
  EXPECT_EQ(message("form=rot,block=64,store=plain", "x86-64-v4"), "legal");
  EXPECT_EQ(message("form=split,accumulators=8", "x86-64-v4"),
            "schedule accumulators=8: mode batch-invariant fixes accumulators=4");
  EXPECT_EQ(message("form=split,rsqrt=newton", "x86-64-v4"), "schedule rsqrt=newton: mode batch-invariant fixes rsqrt=exact");
  EXPECT_EQ(message("form=split,unpack=widen", "x86-64-v4"), "schedule unpack=widen: mode batch-invariant fixes unpack=even_odd");
  EXPECT_EQ(message("lanes=32,vector=8,block=256", "sm_90"), "legal");
  EXPECT_EQ(message("lanes=16,vector=8", "sm_90"), "schedule lanes=16: mode batch-invariant fixes lanes=32");
  EXPECT_EQ(message("lanes=32,vector=4", "sm_90"), "schedule vector=4: mode batch-invariant fixes vector=8");
}

constexpr std::int64_t kRowCounts[] = {1, 2, 255, 256, 257, 4096};

// A database with another winner for each row count.
void publish_winners(Database& database, const KernelSpec& spec, const DeviceInfo& device) {
  const std::vector<Plan> plans = all_plans(spec, device.target);
  ASSERT_GE(plans.size(), std::size(kRowCounts));
  for (std::size_t i = 0; i < std::size(kRowCounts); ++i) {
    const Plan& plan = plans[i * plans.size() / std::size(kRowCounts)];
    Record record = test::sample_record(spec, kRowCounts[i], device);
    record.schedule = plan.schedule;
    record.kernel = test::sample_kernel(test::sample_artifact(plan));
    const auto published = database.publish(record);
    ASSERT_TRUE(published.ok()) << published.error().message;
  }
}

TEST(BatchInvariance, ARowIsBitEqualInEveryBatchThoughEachIsTunedOnItsOwn) {
  const KernelSpec spec = *parse_spec("width=768,head_size=256,gate=seednorm,mode=batch-invariant");
  const test::TemporaryDirectory directory;
  auto database = *Database::open(directory.path() / "db");
  HostRunner host(2);
  publish_winners(*database, spec, host.device().info());
  Runtime runtime(host.device(), database.get(), &host.backend());

  const Data data = make_data(spec, 2);
  std::vector<std::byte> alone;
  std::set<std::string> schedules;
  for (std::int64_t rows : kRowCounts) {
    LaunchTensors batch(spec, rows, {});
    batch.set_weights(data.weights);
    const std::set<std::int64_t> places = {0, rows / 2, rows - 1};
    for (std::int64_t row = 0; row < rows; ++row) batch.set_row(row, data.rows[places.count(row)]);
    const auto report = runtime.run(spec, batch.arguments());
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->served, Served::exact);
    schedules.insert(to_text(report->schedule));
    if (rows == 1) alone = batch.tensor(Operand::y).row_bytes(0);
    for (std::int64_t row : places) ASSERT_EQ(batch.tensor(Operand::y).row_bytes(row), alone) << rows << " rows, row " << row;
  }
  EXPECT_EQ(schedules.size(), std::size(kRowCounts)) << "row counts share schedules";
}

}  // namespace
}  // namespace headnorm::test
