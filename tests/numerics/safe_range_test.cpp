// Mode safe-range: right for every finite u, where the default mode's squares leave f32, while the betas of a seed head sum to less
// than 2^64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/host_runner.h"

namespace headnorm::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLargestF32 = 0x1.fffffep127, kLargestBf16 = 0x1.fep127;

// Runs a plan on a host or, as PTX, on the emulator. Fails the test that calls it.
class Runner {
 public:
  void run(const Plan& plan, LaunchTensors& tensors) {
    if (plan.target.kind == TargetKind::host) return host_.run(plan, tensors);
    tensors.seal();
    ASSERT_EQ(run_ptx(host_.backend(), plan, tensors, emulator::Order::forward), "");
    ASSERT_EQ(tensors.damage(), "");
  }

 private:
  HostRunner host_;
};

// On every instruction set, in every form; and as PTX, in registers and read again.
void for_each_plan(const std::string& spec_text, const std::function<void(const Plan&)>& body) {
  const Result<KernelSpec> spec = parse_spec(spec_text);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  std::vector<Plan> plans;
  for (HostIsa isa : supported_isas()) {
    const std::vector<Plan> forms = plans_of_all_forms(*spec, isa);
    plans.insert(plans.end(), forms.begin(), forms.end());
  }
  for (const char* schedule : {"lanes=4,vector=2,block=32", "lanes=4,vector=2,block=64,residency=reload"}) {
    const Result<Plan> plan = make_plan(*spec, *parse_schedule(schedule), make_gpu_target(80));
    if (plan.ok()) plans.push_back(*plan);
  }
  ASSERT_GE(plans.size(), 4u);
  for (const Plan& plan : plans) {
    SCOPED_TRACE(to_text(plan.spec) + " " + to_text(plan.target) + " " + to_text(plan.schedule));
    body(plan);
    if (testing::Test::HasFailure()) return;
  }
}

// y of one row of these numbers, with this in every beta and residual; the other weights are 1.
std::vector<double> y_of(Runner& runner, const Plan& plan, const std::function<double(std::int64_t)>& x, double beta = 1,
                         double residual = 1) {
  const auto value = [&](Operand operand, std::int64_t i) {
    if (operand == Operand::x) return x(i);
    return operand == Operand::beta ? beta : operand == Operand::residual ? residual : 1;
  };
  LaunchTensors tensors(plan.spec, 1, {});
  for (Operand operand : kOperands) {
    if (!has_operand(plan.spec, operand) || is_output(operand)) continue;
    for (std::int64_t i = 0; i < operand_elements(plan.spec, operand); ++i) tensors.tensor(operand).set(0, i, value(operand, i));
  }
  runner.run(plan, tensors);
  return tensors.tensor(Operand::y).row(0);
}

struct Constant {
  const char* dtype;
  double x;
};

TEST(SafeRange, ARowOfOneNumberIsNormalisedToOne) {
  Runner runner;
  for (const Constant& constant : {Constant{"f32", 0x1p100},
                                   {"f32", 0x1p-80},
                                   {"f32", kLargestF32},
                                   {"f32", 0x1p-149},
                                   {"f32", 0x1p-126},
                                   {"f32", 1.0},
                                   {"bf16", kLargestBf16},
                                   {"bf16", 0x1p-133},
                                   {"bf16", 0x1p100},
                                   {"f16", 65504.0},
                                   {"f16", 0x1p-24}}) {
    for_each_plan(fmt::format("width=128,head_size=32,x={0},y=f32,weight=channel:f32,eps=0,mode=safe-range", constant.dtype),
                  [&](const Plan& plan) {
                    for (double y : y_of(runner, plan, [&](std::int64_t) { return constant.x; }))
                      EXPECT_NEAR(y, 1, 6e-7) << constant.x;
                  });
  }
}

// The same rows in the default mode, as documented for it.
TEST(SafeRange, TheDefaultModeLosesTheseRows) {
  Runner runner;
  for_each_plan("width=128,head_size=32,x=f32,y=f32,weight=channel:f32,eps=0", [&](const Plan& plan) {
    for (double y : y_of(runner, plan, [](std::int64_t) { return 0x1p100; })) EXPECT_EQ(y, 0);
    for (double y : y_of(runner, plan, [](std::int64_t) { return 0x1p-80; })) EXPECT_EQ(y, kInf);
  });
}

TEST(SafeRange, HeadsOfAnyMagnitudeStandSideBySide) {
  Runner runner;
  constexpr double kMagnitudes[] = {0x1p100, 1, 0x1p-80, 0x1p-140};
  for_each_plan("width=128,head_size=32,x=f32,y=f32,weight=channel:f32,eps=0,mode=safe-range", [&](const Plan& plan) {
    for (double y : y_of(runner, plan, [&](std::int64_t i) { return kMagnitudes[i / 32]; })) EXPECT_NEAR(y, 1, 6e-7);
  });
}

TEST(SafeRange, EpsKeepsItsMeaning) {
  Runner runner;
  for_each_plan("width=64,head_size=32,x=f32,y=f32,weight=channel:f32,mode=safe-range", [&](const Plan& plan) {
    for (double y : y_of(runner, plan, [](std::int64_t) { return 0; })) EXPECT_EQ(y, 0);
    for (double y : y_of(runner, plan, [](std::int64_t) { return 0x1p-10; })) EXPECT_NEAR(y, 0.6986730, 5e-7);
    for (double y : y_of(runner, plan, [](std::int64_t) { return 0x1p-80; })) EXPECT_NEAR(y, 0x1p-80 * 1e3, 0x1p-80 * 1e-3);
  });
}

TEST(SafeRange, AZeroHeadWithoutEpsIsNanAndNanStaysInItsHead) {
  Runner runner;
  for_each_plan("width=128,head_size=32,x=f32,y=f32,weight=channel:f32,eps=0,mode=safe-range", [&](const Plan& plan) {
    const std::vector<double> y = y_of(runner, plan, [](std::int64_t i) {
      if (i == 40) return std::nan("");
      if (i == 70) return kInf;
      return i < 32 ? 0.0 : 3.0;
    });
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (i < 64 || i == 70)
        EXPECT_TRUE(std::isnan(y[i])) << i;
      else
        EXPECT_NEAR(y[i], i < 96 ? 0 : 1, 6e-7) << i;
    }
  });
}

// A dot product past f32 saturates the gate: y = 1 + 1 or 1 - 1, never NaN.
TEST(SafeRange, AHugeSeedSaturatesItsGate) {
  Runner runner;
  for (const char* sigma : {"tanh", "softsign", "hardtanh"}) {
    for (const char* seed_heads : {"1", "2"}) {
      const std::string spec = fmt::format(
          "width=64,head_size=32,x=f32,y=f32,weight=channel:f32,gate=seednorm,seed_heads={},seed_scale=1024,sigma={},mode=safe-"
          "range",
          seed_heads, sigma);
      for_each_plan(spec, [&](const Plan& plan) {
        for (double y : y_of(
                 runner, plan, [](std::int64_t) { return 0x1p126; }, 1))
          EXPECT_NEAR(y, 2, 2e-6);
        for (double y : y_of(
                 runner, plan, [](std::int64_t) { return 0x1p126; }, -1))
          EXPECT_NEAR(y, 0, 2e-6);
      });
    }
  }
}

// Largest terms that the mode allows, in magnitudes whose sums are exact: they cancel or saturate the gate, in any order of sums.
TEST(SafeRange, ASeedDotIsRightWhileTheBetasSumToLessThanItsLimit) {
  Runner runner;
  constexpr double kBeta = 0x1.fep57;  // 64 of them: 0x1.fep63
  const auto alternating = [](std::int64_t i) { return i / 2 % 2 == 0 ? kLargestBf16 : -kLargestBf16; };
  for_each_plan("width=64,head_size=32,x=f32,y=f32,weight=channel:f32,gate=seednorm,seed_heads=1,mode=safe-range",
                [&](const Plan& plan) {
                  const std::vector<double> y = y_of(runner, plan, alternating, kBeta);
                  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], i / 2 % 2 == 0 ? 1 : -1, 6e-7) << i;
                  for (double saturated : y_of(
                           runner, plan, [](std::int64_t) { return kLargestBf16; }, kBeta))
                    EXPECT_NEAR(saturated, 2, 2e-6);
                  // Each term is past f32 then, and infinities of both signs meet.
                  for (double lost : y_of(runner, plan, alternating, 0x1p66)) EXPECT_TRUE(std::isnan(lost)) << lost;
                });
}

TEST(SafeRange, TheBoundPromisesAGateUpToTheLimitOfItsBetasAndNothingPastIt) {
  const KernelSpec spec =
      *parse_spec("width=64,head_size=32,x=f32,y=f32,weight=channel:f32,gate=seednorm,seed_heads=1,mode=safe-range");
  const Target target = make_host_target(HostIsa::x86_64_v3);
  const Arithmetic arithmetic = arithmetic_of(*make_plan(spec, default_schedule(spec, target), target));
  const auto error = [&](double beta) {
    RowValues values;
    for (Operand operand : {Operand::x, Operand::gamma, Operand::alpha, Operand::beta})
      values[static_cast<std::size_t>(operand)].assign(64, operand == Operand::x      ? kLargestF32
                                                           : operand == Operand::beta ? beta
                                                                                      : 1);
    return bound_errors(spec, arithmetic, values).y[0];
  };
  EXPECT_LT(error(0x1.fffep57), 1e-5);
  EXPECT_EQ(error(0x1p59), kInf);
}

TEST(SafeRange, ASumPastF32IsAnInfinityOfItsHead) {
  Runner runner;
  for_each_plan("width=64,head_size=32,x=f32,y=f32,weight=channel:f32,residual=add:f32,eps=0,mode=safe-range",
                [&](const Plan& plan) {
                  const auto x = [](std::int64_t) { return 0x1p127; };
                  for (double y : y_of(runner, plan, x, 1, 0x1p126)) EXPECT_NEAR(y, 1, 6e-7);
                  for (double y : y_of(runner, plan, x, 1, 0x1p127)) EXPECT_TRUE(std::isnan(y)) << y;
                });
}

TEST(SafeRange, TheBoundPromisesSomethingForEveryMagnitude) {
  const KernelSpec spec = *parse_spec("width=96,head_size=32,x=f32,y=f32,weight=channel:f32,eps=0,gate=seednorm,mode=safe-range");
  const Target target = make_host_target(HostIsa::x86_64_v3);
  const Arithmetic arithmetic = arithmetic_of(*make_plan(spec, default_schedule(spec, target), target));
  Random random(test_seed());
  KernelSpec standard = spec;
  standard.mode = Mode::standard;
  RowValues values;
  fill_random_weights(random, standard, values);
  for (int exponent : {-140, -126, -80, 0, 80, 100, 124}) {
    std::vector<double>& x = values[static_cast<std::size_t>(Operand::x)];
    x.clear();
    for (int i = 0; i < 96; ++i) x.push_back(round_to_dtype(std::ldexp(1 + 0.01 * i, exponent), Dtype::f32));
    const RowErrors errors = bound_errors(spec, arithmetic, values);
    for (double error : errors.y) EXPECT_LT(error, 1e-4) << exponent;
    const bool in_range = exponent > -60 && exponent < 60;
    EXPECT_EQ(std::isfinite(bound_errors(standard, arithmetic, values).y[0]), in_range) << exponent;
  }
}

TEST(SafeRange, RefusesFormsOfTwoSweepsByName) {
  const KernelSpec spec = *parse_spec("width=4096,head_size=256,mode=safe-range");
  for (const char* form : {"rot", "pipe"}) {
    const Result<Plan> plan = make_plan(spec, *parse_schedule(fmt::format("form={}", form)), make_host_target(HostIsa::x86_64_v4));
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.error().message.find(fmt::format("form={}: runs two sweeps side by side", form)), std::string::npos)
        << plan.error().message;
  }
}

}  // namespace
}  // namespace headnorm::test
