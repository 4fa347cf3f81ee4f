#include "cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace headnorm::cli {
namespace {

class Interrupt : public testing::TestWithParam<int> {};

TEST_P(Interrupt, IsAQuestionAndInterruptsBlockingCalls) {
  struct sigaction action = {};
  {
    const InterruptScope scope;
    EXPECT_FALSE(InterruptScope::requested());
    ASSERT_EQ(::sigaction(GetParam(), nullptr, &action), 0);
    EXPECT_EQ(action.sa_flags & SA_RESTART, 0);
    std::raise(GetParam());
    EXPECT_TRUE(InterruptScope::requested());
    // The second one is not caught.
    ASSERT_EQ(::sigaction(GetParam(), nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_DFL);
  }
  const InterruptScope again;
  EXPECT_FALSE(InterruptScope::requested());
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, testing::Values(SIGINT, SIGTERM));

}  // namespace
}  // namespace headnorm::cli
