// The sweep program: verifier, printer, evaluator.
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "generator/program/builder.h"
#include "generator/program/evaluate.h"

namespace headnorm {
namespace {

KernelSpec small_spec() {
  KernelSpec spec;
  spec.width = 4;
  spec.head_size = 2;
  spec.gate = Gate::seednorm;
  spec.seed_heads = 2;
  return *make_spec(spec);
}

TEST(Program, ReadsLikeTheFormula) {
  EXPECT_EQ(program::print(*build_program(*parse_spec("width=4096,head_size=256,residual=add:bf16"))),
            "program width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,residual=add:bf16\n"
            "sweep:\n"
            "  %0 = load x bf16\n"
            "  %1 = load residual bf16\n"
            "  %2 u = add %0, %1\n"
            "  %3 u = round_to bf16 %2\n"
            "  %4 sum_sq = reduce_dot head %3, %3\n"
            "scalars:\n"
            "  %5 = constant 0.00390625\n"
            "  %6 = constant 1e-06\n"
            "  %7 mean_sq = fma %4, %5, %6\n"
            "  %8 inv_rms = rsqrt %7\n"
            "sweep:\n"
            "  %9 = store residual_out bf16 %3\n"
            "  %10 n = mul %3, %8\n"
            "  %11 = load gamma bf16\n"
            "  %12 y = mul %10, %11\n"
            "  %13 = store y bf16 %12\n");
}

TEST(Program, SafeRangeFindsItsScaleInASweepOfItsOwn) {
  const auto program = *build_program(*parse_spec("width=64,head_size=32,x=f32,y=f32,weight=none,eps=0.25,mode=safe-range"));
  EXPECT_EQ(program::print(program),
            "program width=64,head_size=32,x=f32,y=f32,weight=none,eps=0.25,mode=safe-range\n"
            "sweep:\n"
            "  %0 = load x f32\n"
            "  %1 = abs %0\n"
            "  %2 peak = reduce_max head %1\n"
            "scalars:\n"
            "  %3 = clamp %2, 0.5, 3.4028234663852886e+38\n"
            "  %4 scale = inverse_power %3\n"
            "sweep:\n"
            "  %5 = mul %0, %4\n"
            "  %6 sum_sq = reduce_dot head %5, %5\n"
            "scalars:\n"
            "  %7 = constant 0.03125\n"
            "  %8 = constant 0.25\n"
            "  %9 = mul %8, %4\n"
            "  %10 = mul %9, %4\n"
            "  %11 mean_sq = fma %6, %7, %10\n"
            "  %12 inv_rms = rsqrt %11\n"
            "sweep:\n"
            "  %13 y = mul %5, %12\n"
            "  %14 = store y f32 %13\n");
  EXPECT_EQ(program::values_to_keep(program, 0), std::vector<program::ValueId>{0});
  EXPECT_EQ(program::values_to_keep(program, 2), std::vector<program::ValueId>{5});
  EXPECT_TRUE(program::values_to_keep(program::rematerialise(program), 0).empty());
}

TEST(Program, InversePowerIsLimitedToF32) {
  program::Builder p(*parse_spec("width=1,head_size=1,x=f32,y=f32,weight=none"));
  program::Value power;
  p.sweep([&] { power = p.reduce_max(program::Domain::head, p.load(Operand::x)); });
  p.scalars([&] { power = p.inverse_power(power); });
  p.sweep([&] { p.store(Operand::y, p.load(Operand::x) * 0.0 + power); });
  const program::Program program = p.take();
  ASSERT_TRUE(program::verify(program).ok());
  const auto power_of = [&](double x) {
    program::RowInputs inputs;
    inputs[static_cast<std::size_t>(Operand::x)] = {x};
    return program::evaluate(program, inputs).y[0];
  };
  EXPECT_EQ(power_of(1), 1);
  EXPECT_EQ(power_of(1.99), 1);
  EXPECT_EQ(power_of(2), 0.5);
  EXPECT_EQ(power_of(0.75), 2);
  EXPECT_EQ(power_of(0x1.8p127), 0x1p-126);
  EXPECT_EQ(power_of(0x1p-149), 0x1p126);
  EXPECT_EQ(power_of(0), 0x1p126);
}

TEST(Program, SeedPerHeadStaysInItsHead) {
  program::RowInputs inputs;
  inputs[static_cast<std::size_t>(Operand::x)] = {1, 1, 1, 1};
  inputs[static_cast<std::size_t>(Operand::gamma)] = {0, 0, 0, 0};
  inputs[static_cast<std::size_t>(Operand::alpha)] = {1, 1, 1, 1};
  inputs[static_cast<std::size_t>(Operand::beta)] = {.5, .5, 0, 0};
  const auto outputs = program::evaluate(*build_program(small_spec()), inputs);
  EXPECT_NEAR(outputs.y[0], 0.761594, 1e-5);
  EXPECT_NEAR(outputs.y[1], 0.761594, 1e-5);
  EXPECT_EQ(outputs.y[2], 0);
  EXPECT_EQ(outputs.y[3], 0);
}

TEST(Program, RematerialisedSweepsKeepNothing) {
  const auto program = *build_program(*parse_spec("width=64,head_size=32,residual=add:bf16"));
  EXPECT_EQ(program::kept_values(program, 2).size(), 1u);
  const auto again = program::rematerialise(program);
  EXPECT_TRUE(program::kept_values(again, 2).empty());
  EXPECT_TRUE(program::verify(again).ok());
}

TEST(Program, VerifierRefusesAReductionUsedInItsOwnSweep) {
  auto program = *build_program(small_spec());
  for (auto& instruction : program.instructions) {
    if (instruction.op == program::Op::store) instruction.arguments[0] = -1;
  }
  EXPECT_FALSE(program::verify(program).ok());
}

}  // namespace
}  // namespace headnorm
