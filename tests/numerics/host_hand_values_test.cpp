// Outputs worked out by hand, against the host kernels of every form and instruction set.
#include <gtest/gtest.h>

#include "tests/support/hand_cases.h"
#include "tests/support/host_runner.h"

namespace headnorm::test {
namespace {

class HostHandValues : public testing::TestWithParam<std::size_t> {};

TEST_P(HostHandValues, AreStored) {
  const HandCase hand = hand_cases()[GetParam()];
  constexpr std::int64_t kRows = 3;
  HostRunner runner;
  for (HostIsa isa : supported_isas()) {
    for (const Plan& plan : plans_of_all_forms(hand.spec, isa)) {
      SCOPED_TRACE(to_text(plan.target) + " " + to_text(plan.schedule));
      LaunchTensors tensors(hand.spec, kRows, {});
      tensors.set_weights(hand.inputs);
      for (std::int64_t row = 0; row < kRows; ++row) tensors.set_row(row, hand.inputs);
      runner.run(plan, tensors);
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::vector<double> y = tensors.tensor(Operand::y).row(row);
        for (std::size_t i = 0; i < y.size(); ++i)
          ASSERT_TRUE(is_hand_value(y[i], hand.y[i])) << "row " << row << " channel " << i << ": " << y[i] << ", not " << hand.y[i];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, HostHandValues, testing::Range<std::size_t>(0, hand_cases().size()), [](const auto& instance) {
  return hand_cases()[instance.param].name + "_" + std::to_string(instance.param);
});

}  // namespace
}  // namespace headnorm::test
