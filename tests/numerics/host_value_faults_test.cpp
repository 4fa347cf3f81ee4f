// What host kernels compute at the edges: zeros, NaN and infinity, dtypes, head sizes, batches, and the gate.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "tests/support/host_runner.h"

namespace headnorm::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

KernelSpec plain_spec(std::int64_t width, std::int64_t head_size, Dtype dtype, double eps = 1e-6) {
  KernelSpec spec;
  spec.width = width;
  spec.head_size = head_size;
  spec.x_dtype = spec.y_dtype = spec.weight_dtype = dtype;
  spec.eps = eps;
  return *make_spec(spec);
}

KernelSpec gated_spec(std::int64_t width, std::int64_t head_size, Dtype dtype, std::int64_t seed_heads) {
  KernelSpec spec = plain_spec(width, head_size, dtype);
  spec.gate = Gate::seednorm;
  spec.seed_heads = seed_heads;
  return *make_spec(spec);
}

void for_each_plan(const KernelSpec& spec, const std::function<void(const Plan&)>& body) {
  for (HostIsa isa : supported_isas()) {
    for (const Plan& plan : plans_of_all_forms(spec, isa)) {
      SCOPED_TRACE(to_text(plan.spec) + " " + to_text(plan.target) + " " + to_text(plan.schedule));
      body(plan);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// One row whose elements are all `x`, weights 1: y.
std::vector<double> y_of_constant(HostRunner& runner, const Plan& plan, double x) {
  LaunchTensors tensors(plan.spec, 1, {});
  for (std::int64_t i = 0; i < plan.spec.width; ++i) {
    tensors.tensor(Operand::x).set(0, i, x);
    tensors.tensor(Operand::gamma).set(0, i, 1);
  }
  runner.run(plan, tensors);
  return tensors.tensor(Operand::y).row(0);
}

TEST(HostZeros, ZeroHeadWithoutEpsIsNan) {
  HostRunner runner;
  for_each_plan(plain_spec(96, 48, Dtype::f32, 0), [&](const Plan& plan) {
    for (double y : y_of_constant(runner, plan, 0)) EXPECT_TRUE(std::isnan(y)) << y;
  });
}

TEST(HostZeros, NegativeEpsIsRefused) {
  KernelSpec spec = plain_spec(64, 64, Dtype::f32);
  spec.eps = -1e-6;
  ASSERT_FALSE(make_spec(spec).ok());
  EXPECT_NE(make_spec(spec).error().message.find("-1e-06"), std::string::npos);
}

TEST(HostZeros, NoRowsWithNullPointersLaunchNothingAndTheNextLaunchIsRight) {
  HostRunner runner;
  Random random(test_seed());
  for_each_plan(plain_spec(96, 32, Dtype::bf16), [&](const Plan& plan) {
    const auto kernel = runner.kernel(plan);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    EXPECT_TRUE(runner.device().launch(**kernel, LaunchArguments{}).ok());
    run_random_rows(runner, plan, 2, {}, random);
  });
}

TEST(HostRange, SquaresPastF32GiveZeroAndUnderflownOnesInfinity) {
  HostRunner runner;
  for_each_plan(plain_spec(128, 128, Dtype::f32, 0), [&](const Plan& plan) {
    for (double y : y_of_constant(runner, plan, 0x1p100)) EXPECT_EQ(y, 0);
    for (double y : y_of_constant(runner, plan, 0x1p-80)) EXPECT_EQ(y, kInf);
    for (double y : y_of_constant(runner, plan, 0x1p60)) EXPECT_NEAR(y, 1, 4e-7);
    for (double y : y_of_constant(runner, plan, 0x1p-60)) EXPECT_NEAR(y, 1, 4e-7);
  });
}

TEST(HostDtypes, WeightsOfAnyDtypeWithInputsOfAny) {
  HostRunner runner;
  Random random(test_seed());
  for (Dtype x : kDtypes) {
    for (Dtype weight : kDtypes) {
      KernelSpec spec = gated_spec(192, 48, x, 4);
      spec.weight_dtype = weight;
      for_each_plan(*make_spec(spec), [&](const Plan& plan) {
        const HostSchedule& schedule = plan.host_schedule();  // dtypes are converted the same with any root and store
        if (schedule.rsqrt == RsqrtForm::exact && schedule.store == StoreKind::plain) run_random_rows(runner, plan, 3, {}, random);
      });
    }
  }
}

class HostHeadSizes : public testing::TestWithParam<std::int64_t> {};

TEST_P(HostHeadSizes, TwelveHeadsOfAnySize) {
  HostRunner runner;
  Random random(test_seed());
  for (Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    for_each_plan(plain_spec(12 * GetParam(), GetParam(), dtype),
                  [&](const Plan& plan) { run_random_rows(runner, plan, 2, {}, random); });
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostHeadSizes,
                         testing::Values(1, 2, 8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 112, 120, 128, 160, 192, 208, 256, 288, 304,
                                         320, 352, 512, 576, 1024));

TEST(HostHeadSizes, OneThatDoesNotDivideTheWidthIsRefusedWithTheNearest) {
  KernelSpec spec;
  spec.width = 1152;
  spec.head_size = 256;
  const auto made = make_spec(spec);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("256 does not divide width 1152"), std::string::npos);
  EXPECT_NE(made.error().remedy.find("288"), std::string::npos);
}

// Numbers of heads and of rows beyond 65,535, where a grid dimension of some devices ends.
TEST(HostLimits, MoreHeadsAndRowsThanSixteenBitsCount) {
  HostRunner runner(2);
  Random random(test_seed());
  const Target target = make_host_target(detect_host_isa());
  const std::pair<KernelSpec, std::int64_t> shapes[] = {{plain_spec(8 * 65536, 8, Dtype::bf16), 2},
                                                        {plain_spec(64, 64, Dtype::bf16), 65536},
                                                        {plain_spec(64, 64, Dtype::bf16), 70000}};
  for (const auto& [spec, rows] : shapes)
    run_random_rows(runner, *make_plan(spec, default_schedule(spec, target), target), rows, {}, random);
}

// One head as wide as a row, with everything that a row can have, up to the widest.
TEST(HostLimits, WidestFusedRows) {
  HostRunner runner;
  Random random(test_seed());
  const Target target = make_host_target(detect_host_isa());
  for (const std::int64_t width : {12288, 65536, 1 << 20}) {
    KernelSpec spec = gated_spec(width, width, Dtype::f32, 1);
    spec.residual = Residual::add;
    spec.residual_dtype = Dtype::f32;
    run_random_rows(runner, *make_plan(spec, default_schedule(spec, target), target), 1, {}, random);
  }
  EXPECT_FALSE(make_spec(KernelSpec{.width = (1 << 20) + 8, .head_size = 8}).ok());
}

// Runs 9 rows, with `value` at row 3, head 1, its element 7, and compares with the run without it.
void expect_stays_in_head(HostRunner& runner, const Plan& plan, double value) {
  constexpr std::int64_t kRows = 9, kRow = 3, kHead = 1, kElement = 7;
  const KernelSpec& spec = plan.spec;
  const auto run = [&](bool with_value) {
    LaunchTensors tensors(spec, kRows, {});
    Random random(test_seed());
    RowValues values;
    fill_random_weights(random, spec, values);
    tensors.set_weights(values);
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < spec.width; ++i)
        tensors.tensor(Operand::x).set(row, i, std::normal_distribution<double>()(random));
    }
    if (with_value) tensors.tensor(Operand::x).set(kRow, kHead * spec.head_size + kElement, value);
    runner.run(plan, tensors);
    return tensors;
  };
  LaunchTensors clean = run(false), touched = run(true);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < spec.width; ++i) {
      const double y = touched.tensor(Operand::y).at(row, i);
      if (row != kRow || i / spec.head_size != kHead)
        ASSERT_EQ(y, clean.tensor(Operand::y).at(row, i)) << "row " << row << " channel " << i;
      else if (std::isnan(value) || i % spec.head_size == kElement)
        ASSERT_TRUE(std::isnan(y)) << y << " in channel " << i;
      else
        ASSERT_EQ(y, 0) << "channel " << i;
    }
  }
}

TEST(HostNan, StaysInItsHead) {
  HostRunner runner;
  for (Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    for (const KernelSpec& spec : {plain_spec(320, 80, dtype), gated_spec(320, 80, dtype, 4)})
      for_each_plan(spec, [&](const Plan& plan) { expect_stays_in_head(runner, plan, kNan); });
  }
}

TEST(HostNan, InfinityMakesItsOwnOutputNanAndTheOthersOfItsHeadZero) {
  HostRunner runner;
  for (Dtype dtype : {Dtype::bf16, Dtype::f32})
    for_each_plan(plain_spec(320, 80, dtype), [&](const Plan& plan) { expect_stays_in_head(runner, plan, kInf); });
}

// Every payload of an f32 NaN must stay one when it is narrowed: 0x7fffffff rounds up into the sign.
TEST(HostNan, EveryF32NanStaysOneInBf16) {
  HostRunner runner;
  KernelSpec spec = plain_spec(64, 32, Dtype::f32);
  spec.y_dtype = Dtype::bf16;
  for_each_plan(*make_spec(spec), [&](const Plan& plan) {
    for (std::uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0xff800001u, 0x7fc00000u}) {
      float nan;
      std::memcpy(&nan, &bits, sizeof nan);
      LaunchTensors tensors(plan.spec, 1, {});
      for (std::int64_t i = 0; i < 64; ++i) tensors.tensor(Operand::gamma).set(0, i, 1);
      for (std::int64_t i = 0; i < 64; ++i) tensors.tensor(Operand::x).set(0, i, 1);
      std::memcpy(static_cast<char*>(tensors.tensor(Operand::x).address()) + 4 * 5, &nan, sizeof nan);
      runner.run(plan, tensors);
      for (std::int64_t i = 0; i < 64; ++i) ASSERT_EQ(std::isnan(tensors.tensor(Operand::y).at(0, i)), i < 32) << i;
    }
  });
}

// A row among others, by 1 and by 3 threads, gives the bytes that it gives alone.
TEST(HostBatch, ARowIsBitEqualAtAnyPlaceInAnyBatch) {
  HostRunner one_thread(1), three_threads(3);
  const KernelSpec spec = gated_spec(768, 256, Dtype::bf16, 3);
  for (const Plan& plan : plans_of_all_forms(spec, detect_host_isa())) {
    SCOPED_TRACE(to_text(plan.schedule));
    Random random(test_seed());
    RowValues weights, row_values;
    fill_random_weights(random, spec, weights);
    fill_random_row(random, spec, row_values);
    LaunchTensors alone(spec, 1, {});
    alone.set_weights(weights);
    alone.set_row(0, row_values);
    one_thread.run(plan, alone);
    for (std::int64_t rows : {2, 255, 256, 257, 4096}) {
      for (HostRunner* runner : {&one_thread, &three_threads}) {
        LaunchTensors batch(spec, rows, {});
        batch.set_weights(weights);
        RowValues other;
        fill_random_row(random, spec, other);
        for (std::int64_t row = 0; row < rows; ++row) batch.set_row(row, other);
        for (std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1}) batch.set_row(row, row_values);
        runner->run(plan, batch);
        for (std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1})
          ASSERT_EQ(batch.tensor(Operand::y).row_bytes(row), alone.tensor(Operand::y).row_bytes(0)) << rows << " rows, row " << row;
      }
    }
  }
}

// Seed heads of any nesting: with alpha 0 the gate vanishes bit by bit.
TEST(HostGate, AlphaZeroIsBitEqualToNoGate) {
  HostRunner runner;
  for (Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    for (std::int64_t seed_heads : {1, 4}) {
      for_each_plan(gated_spec(256, 64, dtype, seed_heads), [&](const Plan& gated_plan) {
        const KernelSpec plain = plain_spec(256, 64, dtype);
        const Result<Plan> plain_plan = make_plan(plain, gated_plan.schedule, gated_plan.target);
        ASSERT_TRUE(plain_plan.ok()) << plain_plan.error().message;
        Random random(test_seed());
        RowValues values;
        fill_random_weights(random, gated_plan.spec, values);
        values[static_cast<std::size_t>(Operand::alpha)].assign(256, 0);
        fill_random_row(random, gated_plan.spec, values);
        LaunchTensors with_gate(gated_plan.spec, 1, {}), without(plain, 1, {});
        with_gate.set_weights(values);
        without.set_weights(values);
        with_gate.set_row(0, values);
        without.set_row(0, values);
        runner.run(gated_plan, with_gate);
        runner.run(*plain_plan, without);
        ASSERT_EQ(with_gate.tensor(Operand::y).row_bytes(0), without.tensor(Operand::y).row_bytes(0));
      });
    }
  }
}

}  // namespace
}  // namespace headnorm::test
