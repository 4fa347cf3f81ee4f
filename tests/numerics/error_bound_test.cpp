// The error bound: seeded faults exceed it, and its ends are where the derivation in docs/numerics.md puts them.
#include "core/error_bound.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/random_cases.h"
#include "tests/support/reference.h"

namespace headnorm::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

KernelSpec wide_spec(Dtype dtype) {
  KernelSpec spec;
  spec.width = 4096;
  spec.head_size = 256;
  spec.x_dtype = spec.y_dtype = spec.weight_dtype = spec.residual_dtype = dtype;
  return *make_spec(spec);
}

KernelSpec gated(KernelSpec spec) {
  spec.gate = Gate::seednorm;
  spec.seed_heads = spec.heads();
  return *make_spec(spec);
}

Arithmetic arithmetic_on_v4(const KernelSpec& spec) {
  const Target target = make_host_target(HostIsa::x86_64_v4);
  return arithmetic_of(*make_plan(spec, default_schedule(spec, target), target));
}

std::vector<double>& values_of(RowValues& values, Operand operand) { return values[static_cast<std::size_t>(operand)]; }

RowValues normal_row(Random& random, const KernelSpec& spec) {
  RowValues values;
  fill_random_weights(random, spec, values);
  for (Operand operand : {Operand::x, Operand::residual}) {
    if (!has_operand(spec, operand)) continue;
    for (std::int64_t i = 0; i < spec.width; ++i)
      values_of(values, operand)
          .push_back(round_to_dtype(std::normal_distribution<double>()(random), operand_dtype(spec, operand)));
  }
  return values;
}

// Elements of y out of bounds over some rows, where the kernel computed `wrong_spec` on what `damage` makes of the inputs.
int elements_out_of_bounds(const KernelSpec& spec, const KernelSpec& wrong_spec, const std::function<void(RowValues&)>& damage) {
  constexpr int kRows = 16;
  Random random(test_seed());
  const Arithmetic arithmetic = arithmetic_on_v4(spec);
  int count = 0;
  for (int row = 0; row < kRows; ++row) {
    const RowValues inputs = normal_row(random, spec);
    RowValues damaged = inputs;
    damage(damaged);
    const ReferenceRow right = reference_row(spec, inputs), wrong = reference_row(wrong_spec, damaged);
    const RowErrors errors = bound_errors(spec, arithmetic, inputs);
    for (std::size_t i = 0; i < right.y.size(); ++i) {
      const double stored = round_to_dtype(wrong.y[i], spec.y_dtype);
      count += is_right_y(stored, right.y[i], errors, i, spec.y_dtype) ? 0 : 1;
    }
  }
  return count;
}

constexpr auto kNoDamage = [](RowValues&) {};

class SeededFault : public testing::TestWithParam<Dtype> {};

TEST_P(SeededFault, NoFaultIsWithinTheBound) {
  EXPECT_EQ(elements_out_of_bounds(wide_spec(GetParam()), wide_spec(GetParam()), kNoDamage), 0);
  EXPECT_EQ(elements_out_of_bounds(gated(wide_spec(GetParam())), gated(wide_spec(GetParam())), kNoDamage), 0);
}

// One of 256 elements is missing from the sum of squares of its head; its own output, wrong anyway here, is but one of 256.
TEST_P(SeededFault, ElementMissingFromASumOfSquares) {
  const KernelSpec spec = wide_spec(GetParam());
  const int heads = 16, rows = 16;
  EXPECT_GT(elements_out_of_bounds(spec, spec, [](RowValues& values) { values_of(values, Operand::x)[4095] = 0; }), rows);
  EXPECT_GT(elements_out_of_bounds(spec, spec,
                                   [](RowValues& values) {
                                     for (std::size_t i = 0; i < 4096; i += 256) values_of(values, Operand::x)[i] = 0;
                                   }),
            2 * rows * heads);
}

TEST_P(SeededFault, ElementMissingFromASeedDot) {
  const KernelSpec spec = gated(wide_spec(GetParam()));
  EXPECT_GT(elements_out_of_bounds(spec, spec, [](RowValues& values) { values_of(values, Operand::beta)[4095] = 0; }), 16);
}

TEST_P(SeededFault, WrongEps) {
  const KernelSpec spec = wide_spec(GetParam());
  KernelSpec wrong = spec;
  wrong.eps = 1e-5;
  EXPECT_GT(elements_out_of_bounds(spec, wrong, kNoDamage), 0);
}

TEST_P(SeededFault, LastElementIsThatOfTheRowBefore) {
  const KernelSpec spec = wide_spec(GetParam());
  Random random(test_seed());
  const RowValues before = normal_row(random, spec), inputs = normal_row(random, spec);
  const double stale = round_to_dtype(reference_row(spec, before).y.back(), spec.y_dtype);
  EXPECT_FALSE(is_within_bound(stale, reference_row(spec, inputs).y.back(),
                               bound_errors(spec, arithmetic_on_v4(spec), inputs).y.back(), spec.y_dtype));
}

TEST_P(SeededFault, StatisticOverAnotherHead) {
  const KernelSpec spec = wide_spec(GetParam());
  KernelSpec wrong = spec;
  wrong.head_size = 512;
  EXPECT_GT(elements_out_of_bounds(spec, wrong, kNoDamage), 1000);
}

TEST_P(SeededFault, SeedOverTheWidth) {
  const KernelSpec spec = gated(wide_spec(GetParam()));
  KernelSpec wrong = spec;
  wrong.seed_heads = 1;
  EXPECT_GT(elements_out_of_bounds(spec, wrong, kNoDamage), 1000);
}

TEST_P(SeededFault, GateOfTheHardwaresApproximateTanh) {  // within 2^-11
  const KernelSpec spec = gated(wide_spec(GetParam()));
  EXPECT_GT(elements_out_of_bounds(spec, spec,
                                   [](RowValues& values) {
                                     for (double& alpha : values_of(values, Operand::alpha)) alpha *= 1 + 0x1p-11;
                                   }),
            1000);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SeededFault, testing::Values(Dtype::f32, Dtype::bf16),
                         [](const auto& instance) { return std::string(to_text(instance.param)); });

TEST(SeededRounding, CastBeforeTheWeight) {
  KernelSpec wrong = wide_spec(Dtype::bf16);
  wrong.rounding = Rounding::llama;
  EXPECT_GT(elements_out_of_bounds(wide_spec(Dtype::bf16), wrong, kNoDamage), 1000);
  EXPECT_GT(elements_out_of_bounds(wrong, wide_spec(Dtype::bf16), kNoDamage), 1000);
}

KernelSpec llama_spec() {
  KernelSpec spec = wide_spec(Dtype::bf16);
  spec.weight_dtype = spec.y_dtype = Dtype::f32;  // shows what the cast came to
  spec.rounding = Rounding::llama;
  return *make_spec(spec);
}

// y of a row whose inner cast came to `cast(n)` instead of the nearest; gamma is exact, so that y / gamma is n.
int wrong_casts_found(const std::function<double(double n)>& cast) {
  const KernelSpec spec = llama_spec();
  KernelSpec exact = spec;
  exact.rounding = Rounding::once;
  Random random(test_seed());
  RowValues inputs = normal_row(random, spec);
  values_of(inputs, Operand::gamma).assign(4096, 1.5);
  const ReferenceRow right = reference_row(spec, inputs), uncast = reference_row(exact, inputs);
  const RowErrors errors = bound_errors(spec, arithmetic_on_v4(spec), inputs);
  int found = 0;
  for (std::size_t i = 0; i < right.y.size(); ++i)
    found += is_right_y(1.5 * cast(uncast.y[i] / 1.5), right.y[i], errors, i, Dtype::f32) ? 0 : 1;
  return found;
}

// Towards zero, away from it, to a wider type, not at all: found wherever that is another value; the right one never is.
TEST(SeededRounding, InnerCastThatIsNotToNearest) {
  const auto to_bf16 = [](double n) { return round_to_dtype(n, Dtype::bf16); };
  const auto cut = [](double n, std::uint32_t more) {
    return static_cast<double>(std::bit_cast<float>((std::bit_cast<std::uint32_t>(static_cast<float>(n)) & 0xffff0000u) + more));
  };
  EXPECT_EQ(wrong_casts_found(to_bf16), 0);
  EXPECT_GT(wrong_casts_found([&](double n) { return cut(n, 0); }), 1500);
  EXPECT_GT(wrong_casts_found([&](double n) { return cut(n, 0x10000); }), 1500);
  EXPECT_GT(wrong_casts_found([](double n) { return round_to_dtype(n, Dtype::f16); }), 3000);
  EXPECT_GT(wrong_casts_found([](double n) { return n; }), 4000);
}

// Where n is above the tie by less than f32 can say, its rounding to f32 is the tie, and the cast falls to the neighbour below.
TEST(ErrorBound, AnInnerCastThroughF32FallsToEitherNeighbour) {
  KernelSpec spec = llama_spec();
  spec.width = spec.head_size = 2;
  spec.x_dtype = Dtype::bf16;
  spec.residual = Residual::add;
  spec.residual_dtype = Dtype::f32;
  spec.eps = 0;
  spec = *make_spec(spec);
  int twice_rounded = 0;
  for (int step = -8; step <= 8; ++step) {
    const double tie = 1.00390625, other = round_to_dtype(std::sqrt(2 - tie * tie) + step * 0x1p-24, Dtype::f32);
    const double n = tie / std::sqrt((tie * tie + other * other) / 2);
    twice_rounded += round_to_dtype(n, Dtype::bf16) != round_to_dtype(round_to_dtype(n, Dtype::f32), Dtype::bf16);
    RowValues inputs;
    values_of(inputs, Operand::x) = {0, 0};
    values_of(inputs, Operand::residual) = {tie, other};
    values_of(inputs, Operand::gamma) = {1.25, 1.25};
    const double exact = reference_row(spec, inputs).y[0];
    const RowErrors errors = bound_errors(spec, arithmetic_on_v4(spec), inputs);
    if (errors.step_from(exact, 0) == 0) continue;  // further from the tie than the error
    // Whichever of them the oracle took.
    for (double taken : {exact, exact + errors.step_from(exact, 0)}) {
      for (double neighbour : {1.0, 1.0078125})
        EXPECT_TRUE(is_right_y(1.25 * neighbour, taken, errors, 0, Dtype::f32)) << neighbour << " at step " << step;
      for (double next : {0.99609375, 1.015625})
        EXPECT_FALSE(is_right_y(1.25 * next, taken, errors, 0, Dtype::f32)) << next << " at step " << step;
    }
  }
  EXPECT_GE(twice_rounded, 1);
}

// x - 0.3 r lies above a tie of f16 by less than the error of its f32 arithmetic: u, and y with it, may take either neighbour.
TEST(ErrorBound, AScaledResidualNearATieFallsToEitherNeighbour) {
  KernelSpec spec;
  spec.width = spec.head_size = 1;
  spec.x_dtype = spec.y_dtype = Dtype::f32;
  spec.weight = WeightForm::none;
  spec.residual = Residual::add;
  spec.residual_dtype = Dtype::f16;
  spec.residual_scale = -0.3;
  spec.eps = 1;
  spec = *make_spec(spec);
  RowValues inputs;
  values_of(inputs, Operand::x) = {-0.68759769201278687};
  values_of(inputs, Operand::residual) = {-0.39013671875};
  const RowErrors errors = bound_errors(spec, arithmetic_on_v4(spec), inputs);
  const double exact = reference_row(spec, inputs).y[0];
  for (double u : {-0.5703125, -0.57080078125})
    EXPECT_TRUE(is_right_y(u / std::sqrt(u * u + 1), exact, errors, 0, Dtype::f32)) << u;
  for (double u : {-0.56982421875, -0.57177734375})  // a step to either side is within it
    EXPECT_FALSE(is_right_y(u / std::sqrt(u * u + 1), exact, errors, 0, Dtype::f32)) << u;
}

// n = 1.00390625 is a tie of bf16, between 1 and 1.0078125. Either neighbour is right; what lies between them, and the next one, is
// not. x is chosen so that n lies on the tie to within the error: 1.00390625^2 + c^2 = 2.
TEST(ErrorBound, AnInnerCastAtATieFallsToEitherNeighbour) {
  KernelSpec spec = llama_spec();
  spec.width = spec.head_size = 2;
  spec.x_dtype = Dtype::bf16;
  spec.residual = Residual::add;
  spec.residual_dtype = Dtype::f32;
  spec.eps = 0;
  spec = *make_spec(spec);
  RowValues inputs;
  values_of(inputs, Operand::x) = {0, 0};
  values_of(inputs, Operand::residual) = {1.00390625, round_to_dtype(std::sqrt(2 - 1.00390625 * 1.00390625), Dtype::f32)};
  values_of(inputs, Operand::gamma) = {1.25, 1.25};
  const double exact = reference_row(spec, inputs).y[0];
  const RowErrors errors = bound_errors(spec, arithmetic_on_v4(spec), inputs);
  EXPECT_NE(errors.step_from(exact, 0), 0);
  for (double n : {1.0, 1.0078125}) EXPECT_TRUE(is_right_y(1.25 * n, exact, errors, 0, Dtype::f32)) << n;
  for (double n : {0.99609375, 1.001, 1.00390625, 1.007, 1.015625})
    EXPECT_FALSE(is_right_y(1.25 * n, exact, errors, 0, Dtype::f32)) << n;
  EXPECT_EQ(errors.step_from(reference_row(spec, inputs).y[1], 1), 0);
}

TEST(SeededRounding, ResidualRoundedOrNot) {
  KernelSpec spec = wide_spec(Dtype::bf16);
  spec.residual = Residual::add;
  spec.residual_dtype = Dtype::bf16;
  KernelSpec wrong = spec;
  wrong.norm_input = NormInput::unrounded;
  EXPECT_GT(elements_out_of_bounds(spec, wrong, kNoDamage), 1000);
  EXPECT_GT(elements_out_of_bounds(wrong, spec, kNoDamage), 1000);
}

TEST(SeededRounding, OffsetAddedInBf16) {
  KernelSpec spec = wide_spec(Dtype::bf16), wrong = spec;
  spec.weight_offset = 1;
  EXPECT_GT(elements_out_of_bounds(spec, wrong,
                                   [](RowValues& values) {
                                     for (double& gamma : values_of(values, Operand::gamma))
                                       gamma = round_to_dtype(1 + gamma, Dtype::bf16);
                                   }),
            1000);
}

// What the project promises of f32: a relative error under 4e-6, where no gain cancels.
TEST(ErrorBound, OfF32IsUnder4e6) {
  Random random(test_seed());
  for (std::int64_t head_size : {64, 256, 4096}) {
    KernelSpec spec = wide_spec(Dtype::f32);
    spec.head_size = head_size;
    const RowValues inputs = normal_row(random, spec);
    const ReferenceRow reference = reference_row(spec, inputs);
    const RowErrors errors = bound_errors(spec, arithmetic_on_v4(spec), inputs);
    for (std::size_t i = 0; i < reference.y.size(); ++i) ASSERT_LE(errors.y[i], 4e-6 * std::fabs(reference.y[i])) << head_size;
  }
}

// The dot is 1e-5 of its terms of 8: their error, about 8 * 2^-23, passes through sigma, of slope 1 there, undiminished.
TEST(ErrorBound, CancellingSeedDotKeepsTheErrorOfItsTerms) {
  KernelSpec spec = wide_spec(Dtype::f32);
  spec.width = spec.head_size = 2;
  RowValues inputs;
  values_of(inputs, Operand::x) = {1, 1};
  values_of(inputs, Operand::gamma) = {0, 0};
  values_of(inputs, Operand::alpha) = {1, 1};
  values_of(inputs, Operand::beta) = {8, -8.00001};
  const RowErrors errors = bound_errors(gated(spec), {1, 1, 0, 0, 3.3e-7}, inputs);
  EXPECT_GE(errors.y[0], 8 * 0x1p-24);
  EXPECT_LE(errors.y[0], 8 * 0x1p-22);
}

TEST(ErrorBound, PromisesNothingWhereSquaresLeaveF32) {
  KernelSpec spec = wide_spec(Dtype::f32);
  spec.width = spec.head_size = 2;
  spec.eps = 0;
  for (double x : {0x1p100, 0x1p-80, 0.0}) {
    RowValues inputs;
    values_of(inputs, Operand::x) = {x, x};
    values_of(inputs, Operand::gamma) = {1, 1};
    EXPECT_EQ(bound_errors(spec, {2, 0, 0x1p-23}, inputs).y[0], kInf) << x;
  }
}

TEST(StoredRange, IsOneValueAwayFromATieAndTwoBesideIt) {
  const StoredRange away = stored_range(1.001, 1e-6, Dtype::bf16);
  EXPECT_EQ(away.low, 1.0);
  EXPECT_EQ(away.high, 1.0);
  const StoredRange tie = stored_range(1.00390625, 1e-6, Dtype::bf16);
  EXPECT_EQ(tie.low, 1.0);
  EXPECT_EQ(tie.high, 1.0078125);
}

TEST(StoredRange, ErrorUnderAQuarterUlpIsWithinOneUlpOfTheNearestValue) {
  Random random(test_seed());
  for (int trial = 0; trial < 10000; ++trial) {
    const double exact = std::normal_distribution<double>()(random);
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 7);
    const StoredRange range = stored_range(exact, 0.249 * ulp, Dtype::bf16);
    EXPECT_LE(range.high - range.low, ulp);
    const double nearest = round_to_dtype(exact, Dtype::bf16);
    EXPECT_TRUE(range.low == nearest || range.high == nearest);
  }
}

TEST(StoredRange, HalfPrecisionOverflowsToInfinity) {
  EXPECT_TRUE(is_within_bound(kInf, 1e6, 0.1, Dtype::f16));
  EXPECT_FALSE(is_within_bound(65504, 1e6, 0.1, Dtype::f16));
  EXPECT_TRUE(is_within_bound(65504, 65519, 2, Dtype::f16));
  EXPECT_TRUE(is_within_bound(kInf, 65519, 2, Dtype::f16));
}

TEST(StoredRange, SubnormalBf16MayBeFlushed) {
  EXPECT_TRUE(is_within_bound(0, 0x1p-127, 0, Dtype::bf16));
  EXPECT_TRUE(is_within_bound(0x1p-127, 0x1p-127, 0, Dtype::bf16));
  EXPECT_FALSE(is_within_bound(0, 0x1p-126, 0, Dtype::bf16));
  EXPECT_FALSE(is_within_bound(0, 0x1p-127, 0, Dtype::f32));
}

TEST(StoredRange, NanIsRightOnlyWhereExpected) {
  EXPECT_TRUE(is_within_bound(NAN, NAN, 0, Dtype::f32));
  EXPECT_FALSE(is_within_bound(NAN, 1, 1e9, Dtype::f32));
  EXPECT_FALSE(is_within_bound(1, NAN, 0, Dtype::f32));
}

}  // namespace
}  // namespace headnorm::test
