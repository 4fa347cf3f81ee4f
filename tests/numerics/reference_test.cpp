// The reference of the tests and the evaluator of sweep programs, written apart, give the same rows.
#include "tests/support/reference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "generator/generator.h"
#include "generator/program/evaluate.h"
#include "tests/support/random_cases.h"

namespace headnorm::test {
namespace {

// What the program has and the formula does not: 1/d and the coefficients of tanh as f32 constants. No sum is rounded.
constexpr Arithmetic kNoSums{.tanh_error = 3.3e-7};

// Nothing is promised of infinite errors; a cast may fall to either neighbour of a tie.
bool is_near(double difference, const RowErrors& errors, std::size_t i) {
  if (std::isinf(errors.y[i]) || std::fabs(difference) <= errors.y[i]) return true;
  return std::fabs(std::fabs(difference) - std::fabs(errors.step_from(0, i))) <= errors.y[i];
}

void expect_equal_rows(const KernelSpec& spec, const RowValues& inputs, const std::string& where) {
  const ReferenceRow reference = reference_row(spec, inputs);
  const program::RowOutputs evaluated = program::evaluate(*build_program(spec), inputs);
  const RowErrors errors = bound_errors(spec, kNoSums, inputs);
  ASSERT_EQ(reference.y.size(), evaluated.y.size());
  for (std::size_t i = 0; i < reference.y.size(); ++i)
    ASSERT_TRUE(is_near(evaluated.y[i] - reference.y[i], errors, i))
        << evaluated.y[i] << " is not " << reference.y[i] << " to within " << errors.y[i] << ": " << where << " channel " << i;
  ASSERT_EQ(reference.residual_out, evaluated.residual_out) << where;
}

TEST(Reference, EqualsTheProgramEvaluatorOnRandomSpecs) {
  Random random(test_seed());
  for (int trial = 0; trial < 4000; ++trial) {
    const KernelSpec spec = random_spec(random, 256, {Dtype::f32, Dtype::f16, Dtype::bf16});
    RowValues inputs;
    fill_random_weights(random, spec, inputs);
    fill_random_row(random, spec, inputs);
    expect_equal_rows(spec, inputs,
                      "seed " + std::to_string(test_seed()) + " trial " + std::to_string(trial) + " " + to_text(spec));
    if (HasFatalFailure()) return;
  }
}

// With a head size of a power of two, no gate and no inner cast, the program has no approximate constant: the two differ by the
// order of double operations only.
TEST(Reference, EqualsTheProgramEvaluatorToDoublePrecisionWithoutApproximations) {
  Random random(test_seed() + 1);
  int compared = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const KernelSpec spec = random_spec(random, 256, {Dtype::f32, Dtype::f16, Dtype::bf16});
    if ((spec.head_size & (spec.head_size - 1)) != 0 || spec.rounding == Rounding::llama) continue;
    if (spec.has_gate() && spec.sigma != Sigma::softsign && spec.sigma != Sigma::hardtanh) continue;
    RowValues inputs;
    fill_random_weights(random, spec, inputs);
    fill_random_row(random, spec, inputs);
    const ReferenceRow reference = reference_row(spec, inputs);
    const program::RowOutputs evaluated = program::evaluate(*build_program(spec), inputs);
    for (std::size_t i = 0; i < reference.y.size(); ++i) {
      SCOPED_TRACE(fmt::format("seed {} trial {} {} channel {}", test_seed(), trial, to_text(spec), i));
      if (std::isnan(reference.y[i]))  // a head of zeros without eps, a stored sum past f16
        ASSERT_TRUE(std::isnan(evaluated.y[i])) << evaluated.y[i];
      else
        ASSERT_NEAR(evaluated.y[i], reference.y[i], 1e-11 * (1 + std::fabs(reference.y[i])));
    }
    ++compared;
  }
  EXPECT_GT(compared, 500);
}

}  // namespace
}  // namespace headnorm::test
