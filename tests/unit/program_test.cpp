// The sweep program: verifier, printer, evaluator.
#include <gtest/gtest.h>

#include "generator/generator.h"
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
