// Outputs worked out by hand, against the reference and the program evaluator. The host kernels meet them in host_faults_test.cpp.
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "generator/program/evaluate.h"
#include "tests/support/hand_cases.h"
#include "tests/support/reference.h"

namespace headnorm::test {
namespace {

void expect_hand_values(const HandCase& hand, const std::vector<double>& y) {
  ASSERT_EQ(y.size(), hand.y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double stored = round_to_dtype(y[i], hand.spec.y_dtype);
    ASSERT_TRUE(is_hand_value(stored, hand.y[i])) << hand.name << " channel " << i << ": " << stored << ", not " << hand.y[i];
  }
}

TEST(HandValues, Reference) {
  for (const HandCase& hand : hand_cases()) expect_hand_values(hand, reference_row(hand.spec, hand.inputs).y);
}

TEST(HandValues, ProgramEvaluator) {
  for (const HandCase& hand : hand_cases()) expect_hand_values(hand, program::evaluate(*build_program(hand.spec), hand.inputs).y);
}

// A bound that refused a value worked out by hand would be wrong.
TEST(HandValues, LieWithinTheBound) {
  for (const HandCase& hand : hand_cases()) {
    const ReferenceRow reference = reference_row(hand.spec, hand.inputs);
    const RowErrors errors = bound_errors(hand.spec, {hand.spec.head_size, hand.spec.width, 0x1p-23, 0, 3.3e-7}, hand.inputs);
    for (std::size_t i = 0; i < hand.y.size(); ++i) {
      if (hand.spec.y_dtype == Dtype::f32) continue;  // given to six digits only
      EXPECT_TRUE(is_right_y(round_to_dtype(hand.y[i], hand.spec.y_dtype), reference.y[i], errors, i, hand.spec.y_dtype))
          << hand.name << " channel " << i;
    }
  }
}

}  // namespace
}  // namespace headnorm::test
