// Every strategy keeps the contract of strategy.h.
#include "tuner/strategy.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace headnorm {
namespace {

SearchSpace space() {
  KernelSpec spec;
  spec.width = 1024;
  spec.head_size = 256;
  return *build_search_space(spec, make_host_target(HostIsa::x86_64_v4_bf16));
}

using Score = std::function<std::optional<double>(const Plan&)>;

// Runs a search in batches and returns the schedules in the order in which they were asked for.
std::vector<std::string> run(Strategy& strategy, std::size_t batch_size, const Score& score) {
  std::vector<std::string> order;
  for (;;) {
    std::vector<Plan> batch;
    while (batch.size() < batch_size) {
      std::optional<Plan> plan = strategy.ask();
      if (!plan) break;
      batch.push_back(*std::move(plan));
    }
    if (batch.empty()) return order;
    for (const Plan& plan : batch) {
      order.push_back(to_text(plan.schedule));
      strategy.tell(plan, score(plan));
    }
    if (order.size() > 10000) return order;
  }
}

std::optional<double> by_block(const Plan& plan) {
  return static_cast<double>(plan.host_schedule().block_bytes + plan.host_schedule().prefetch_bytes);
}

class StrategyConformance : public testing::TestWithParam<SearchKind> {};

TEST_P(StrategyConformance, AsksEveryPlanOnceBeginningWithTheDefaultAndEnds) {
  const auto order = run(*make_strategy(GetParam(), space(), 1), 7, by_block);
  EXPECT_EQ(std::set<std::string>(order.begin(), order.end()).size(), order.size());
  EXPECT_GE(order.size(), 50u);
  EXPECT_LT(order.size(), 300u);
  EXPECT_EQ(order[0], to_text(space().plans[0].schedule));
}

TEST_P(StrategyConformance, PlansAreLegal) {
  const auto strategy = make_strategy(GetParam(), space(), 1);
  run(*strategy, 5, [](const Plan& plan) -> std::optional<double> {
    EXPECT_TRUE(make_plan(plan.spec, plan.schedule, plan.target).ok());
    return 1.0;
  });
}

TEST_P(StrategyConformance, SameSeedAndScoresGiveTheSameOrder) {
  EXPECT_EQ(run(*make_strategy(GetParam(), space(), 3), 8, by_block), run(*make_strategy(GetParam(), space(), 3), 8, by_block));
}

TEST_P(StrategyConformance, EndsWhenEveryPlanIsRejected) {
  const auto order = run(*make_strategy(GetParam(), space(), 1), 4, [](const Plan&) { return std::optional<double>(); });
  EXPECT_GE(order.size(), 50u);
  EXPECT_LT(order.size(), 300u);
}

TEST_P(StrategyConformance, StaysFinished) {
  const auto strategy = make_strategy(GetParam(), space(), 1);
  run(*strategy, 100, by_block);
  EXPECT_FALSE(strategy->ask());
  EXPECT_EQ(strategy->remaining(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, StrategyConformance, testing::Values(SearchKind::exhaustive, SearchKind::random),
                         [](const auto& suite) { return std::string(to_text(suite.param)); });

TEST(ExhaustiveStrategy, RefinesTheBestPlans) {
  const SearchSpace all = space();
  const std::string best = to_text(all.plans[20].schedule);
  const auto order = run(*make_strategy(SearchKind::exhaustive, all, 1), 16,
                         [&](const Plan& plan) -> std::optional<double> { return to_text(plan.schedule) == best ? 1.0 : 2.0; });
  ASSERT_GT(order.size(), all.plans.size());
  EXPECT_EQ(order[all.plans.size()], to_text(refine(all.plans[20])[0].schedule));
}

TEST(RandomStrategy, OtherSeedsGiveOtherOrders) {
  EXPECT_NE(run(*make_strategy(SearchKind::random, space(), 1), 8, by_block),
            run(*make_strategy(SearchKind::random, space(), 2), 8, by_block));
}

}  // namespace
}  // namespace headnorm
