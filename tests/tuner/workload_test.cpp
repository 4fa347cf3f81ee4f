// Operands in guard bands, their data, and what verification sees of a kernel's faults.
#include "tuner/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tests/support/fakes.h"
#include "tests/support/reference.h"
#include "tuner/device_copy.h"
#include "tuner/host_copy.h"
#include "tuner/verification.h"

namespace headnorm {
namespace {

using test::FakeDevice;
using test::Fault;

KernelSpec spec_of(std::string_view text) { return *parse_spec(text); }
constexpr const char* kPlain = "width=32,head_size=16,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06";
constexpr const char* kInplace = "width=32,head_size=16,x=f32,y=f32,weight=channel:f32,eps=1e-06,residual=inplace:f32";

ReferenceRow reference(const KernelSpec& spec, const RowValues& inputs) {
  test::ReferenceRow row = test::reference_row(spec, inputs);
  return {row.y, row.residual_out};
}

WorkloadShape checked_shape(std::int64_t rows) {
  WorkloadShape shape;
  shape.rows = rows;
  shape.gap_bytes = 64;
  for (std::int64_t row = 0; row < rows; ++row) shape.checked_rows.push_back(row);
  return shape;
}

TEST(InputData, HasOutlierChannelsTinyRowsAndAPrimeNumberOfRows) {
  const KernelSpec spec = spec_of("width=512,head_size=256,x=f32,y=f32,weight=channel:f32,eps=1e-06");
  const InputData data(spec, 1);
  EXPECT_EQ(data.row_count(), 31);
  std::set<std::size_t> outliers;
  for (std::size_t i = 0; i < 512; ++i) {
    double largest = 0;
    for (std::int64_t row : {0, 1, 2, 3}) largest = std::max(largest, std::fabs(data.row(row)[0][i]));
    if (largest > 10) outliers.insert(i);
  }
  EXPECT_GE(outliers.size(), 1u);
  EXPECT_LE(outliers.size(), 2u);
  EXPECT_LT(std::fabs(data.row(4)[0][*outliers.begin() == 0 ? 1 : 0]), 0x1p-8);
}

TEST(InputData, FollowsFromTheSeed) {
  const KernelSpec spec = spec_of(kPlain);
  EXPECT_EQ(InputData(spec, 5).bytes(Operand::x), InputData(spec, 5).bytes(Operand::x));
  EXPECT_NE(InputData(spec, 5).bytes(Operand::x), InputData(spec, 6).bytes(Operand::x));
  EXPECT_TRUE(InputData(spec, 5).bytes(Operand::y).empty());
}

TEST(Workload, LaysOutStridedRowsThatSatisfyTheRulesOfALaunch) {
  FakeDevice device;
  for (const char* text : {kPlain, kInplace}) {
    const KernelSpec spec = spec_of(text);
    const InputData data(spec, 1);
    WorkloadShape shape = checked_shape(40);
    shape.sets = 3;
    Result<Workload> workload = Workload::make(device, spec, shape, data);
    ASSERT_TRUE(workload.ok());
    std::set<void*> addresses;
    for (int set = 0; set < 3; ++set) {
      const LaunchArguments arguments = workload->arguments(set);
      EXPECT_TRUE(check_arguments(spec, arguments).ok());
      EXPECT_EQ(arguments.stride(Operand::x) * size_bytes(spec.x_dtype), 32 * size_bytes(spec.x_dtype) + 64);
      EXPECT_EQ(arguments.address(Operand::y) == arguments.address(Operand::x), spec.residual == Residual::inplace);
      addresses.insert(arguments.address(Operand::x));
      const Result<std::optional<std::string>> damage = workload->find_damage(set);
      ASSERT_TRUE(damage.ok());
      EXPECT_FALSE(damage->has_value()) << **damage;
    }
    EXPECT_EQ(addresses.size(), 3u);
  }
}

TEST(Workload, OutputsArePoisonedAndInplaceOperandsRestored) {
  FakeDevice device;
  const KernelSpec inplace = spec_of(kInplace), plain = spec_of(kPlain);
  const InputData inplace_data(inplace, 1), plain_data(plain, 1);
  Result<Workload> a = Workload::make(device, plain, checked_shape(5), plain_data);
  std::memset(a->arguments(0).address(Operand::y), 0, 64);
  ASSERT_TRUE(a->restore(0).ok());
  const std::vector<float> poisoned = *a->read_row(0, Operand::y, 0);
  for (float value : poisoned) EXPECT_TRUE(std::isnan(value));

  Result<Workload> b = Workload::make(device, inplace, checked_shape(40), inplace_data);
  std::memset(b->arguments(0).address(Operand::y), 0, 128);
  ASSERT_TRUE(b->restore(0).ok());
  for (std::int64_t row : {0, 39}) {
    const std::vector<double> x = inplace_data.row(row % 31)[0];
    const std::vector<float> found = *b->read_row(0, Operand::x, row);
    EXPECT_EQ(std::vector<double>(found.begin(), found.end()), x);
  }
}

struct FaultCase {
  Fault fault;
  const char* kind;
};

class VerifierFinds : public testing::TestWithParam<FaultCase> {};

TEST_P(VerifierFinds, AndTheNextLaunchIsRightAgain) {
  for (const char* text : {kPlain, kInplace}) {
    FakeDevice device;
    const KernelSpec spec = spec_of(text);
    // In place, a kernel that writes nothing leaves its input: not the right output either.
    const InputData data(spec, 1);
    Result<Workload> workload = Workload::make(device, spec, checked_shape(40), data);
    Verifier verifier(spec, data, reference);
    const Result<Plan> plan = make_plan(spec, default_schedule(spec, device.info().target), device.info().target);
    const auto kernel = device.load({}, *plan);
    device.fault = [](const Plan&, int launches) { return launches == 1 ? GetParam().fault : Fault::none; };

    ASSERT_TRUE(device.launch(**kernel, workload->arguments(0)).ok());
    const Result<std::optional<Rejection>> right = verifier.check(*plan, *workload, 0);
    ASSERT_TRUE(right.ok());
    EXPECT_FALSE(right->has_value()) << text << ": " << (*right)->message;

    ASSERT_TRUE(workload->restore(0).ok());
    ASSERT_TRUE(device.launch(**kernel, workload->arguments(0)).ok());
    const Result<std::optional<Rejection>> wrong = verifier.check(*plan, *workload, 0);
    ASSERT_TRUE(wrong->has_value()) << text;
    EXPECT_EQ((*wrong)->kind, GetParam().kind) << (*wrong)->message;

    ASSERT_TRUE(workload->repair(0).ok());
    ASSERT_TRUE(device.launch(**kernel, workload->arguments(0)).ok());
    EXPECT_FALSE(verifier.check(*plan, *workload, 0)->has_value());
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, VerifierFinds,
                         testing::Values(FaultCase{Fault::writes_zeros, "incorrect"}, FaultCase{Fault::writes_nothing, "incorrect"},
                                         FaultCase{Fault::wrong_tail, "incorrect"}, FaultCase{Fault::overruns, "out_of_bounds"},
                                         FaultCase{Fault::runs_into_gap, "out_of_bounds"},
                                         FaultCase{Fault::changes_input, "out_of_bounds"}));

TEST(ChooseSets, ColdSetsExceedTwiceTheCacheWithinTheMemoryBound) {
  FakeDevice device;
  const KernelSpec spec = spec_of("width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06");
  for (std::int64_t rows : {std::int64_t{1}, std::int64_t{64}, std::int64_t{12608}, std::int64_t{1} << 20}) {
    DeviceInfo info = device.info();
    info.cache_bytes = 32 << 20;
    WorkloadShape shape;
    shape.rows = rows;
    shape.guard_bytes = 256;
    const int sets = choose_sets(spec, info, shape, CachePolicy::cold);
    EXPECT_GT(sets * minimum_traffic(spec).total_bytes(rows), 2 * info.cache_bytes);
    EXPECT_TRUE(sets == 1 || sets * Workload::set_bytes(spec, shape) <= kMostOperandBytes);
    EXPECT_EQ(choose_sets(spec, info, shape, CachePolicy::warm), 1);
  }
}

TEST(HostCopy, CopiesWhatItWasMadeForAndNoMore) {
  FakeDevice device;
  DeviceInfo info = device.info();
  for (int threads : {1, 3}) {
    info.units = threads;
    for (CachePolicy policy : {CachePolicy::cold, CachePolicy::warm}) {
      const auto copy = make_host_copy(info, policy, 1 << 20);
      ASSERT_TRUE(copy.ok());
      for (std::int64_t bytes : {1, 1000, 300 << 10, 1 << 20}) {
        const Result<double> time = (*copy)->measure_us(bytes);
        ASSERT_TRUE(time.ok()) << time.error().message;
        EXPECT_GT(*time, 0);
      }
      EXPECT_FALSE((*copy)->measure_us(4 << 20).ok());
    }
  }
}

TEST(DeviceCopy, ColdCopiesMoveThroughTheCacheAndWarmOnesStay) {
  FakeDevice device;
  const std::int64_t bytes = 8 << 10, half = bytes / 2;
  const auto cold = make_device_copy(device, CachePolicy::cold, bytes);
  ASSERT_TRUE(cold.ok()) << cold.error().message;
  const Result<double> time_us = (*cold)->measure_us(bytes);
  ASSERT_TRUE(time_us.ok()) << time_us.error().message;
  EXPECT_DOUBLE_EQ(*time_us, static_cast<double>(half) * 1e-3);
  ASSERT_EQ(device.copied.size(), static_cast<std::size_t>(launches_per_trial(bytes)));
  ASSERT_GE(static_cast<std::int64_t>(device.copied.size()) * half, device.info().cache_bytes);
  std::set<const void*> places;
  for (const auto& [from, copied] : device.copied) {
    EXPECT_EQ(copied, static_cast<std::size_t>(half));
    EXPECT_TRUE(places.insert(from).second) << "a place comes again before the caches have forgotten it";
  }
  EXPECT_FALSE((*cold)->measure_us(4 * device.info().cache_bytes).ok());

  const auto warm = make_device_copy(device, CachePolicy::warm, bytes);
  ASSERT_TRUE(warm.ok());
  device.copied.clear();
  ASSERT_TRUE((*warm)->measure_us(bytes).ok());
  for (const auto& [from, copied] : device.copied) EXPECT_EQ(from, device.copied.front().first);
}

TEST(Quantile, InterpolatesAndIgnoresOrder) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_EQ(quantile({7}, 0.2), 7);
  const TimeStatistics statistics = summarise({1, 2, 3, 4, 5, 1000});
  EXPECT_EQ(statistics.median_us, 3.5);
  EXPECT_EQ(statistics.p20_us, 2);
  EXPECT_EQ(statistics.p80_us, 5);
  EXPECT_EQ(statistics.samples, 6);
}

}  // namespace
}  // namespace headnorm
