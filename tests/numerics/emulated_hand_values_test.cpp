// Outputs worked out by hand, against the GPU kernels of every target, on the emulator.
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/hand_cases.h"

namespace headnorm::test {
namespace {

class EmulatedHandValues : public testing::TestWithParam<std::size_t> {};

TEST_P(EmulatedHandValues, AreStored) {
  const HandCase hand = hand_cases()[GetParam()];
  constexpr std::int64_t kRows = 3;
  const auto backend = make_llvm_backend();
  for (const Target& target : gpu_targets()) {
    for (const Plan& plan : plans_of_all_residencies(hand.spec, target)) {
      SCOPED_TRACE(to_text(plan.target) + " " + to_text(plan.schedule));
      LaunchTensors tensors(hand.spec, kRows, {});
      tensors.set_weights(hand.inputs);
      for (std::int64_t row = 0; row < kRows; ++row) tensors.set_row(row, hand.inputs);
      tensors.seal();
      ASSERT_EQ(run_serving_plan(*backend, plan, tensors), "");
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::vector<double> y = tensors.tensor(Operand::y).row(row);
        for (std::size_t i = 0; i < y.size(); ++i)
          ASSERT_TRUE(is_hand_value(y[i], hand.y[i])) << "row " << row << " channel " << i << ": " << y[i] << ", not " << hand.y[i];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EmulatedHandValues, testing::Range<std::size_t>(0, hand_cases().size()), [](const auto& instance) {
  return hand_cases()[instance.param].name + "_" + std::to_string(instance.param);
});

}  // namespace
}  // namespace headnorm::test
