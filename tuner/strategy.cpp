#include "tuner/strategy.h"

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "core/text.h"
#include "tuner/random.h"

namespace headnorm {
namespace {

class ExhaustiveStrategy final : public Strategy {
 public:
  explicit ExhaustiveStrategy(SearchSpace space) {
    for (Plan& plan : space.plans) enqueue(std::move(plan));
  }

  std::optional<Plan> ask() override {
    if (queue_.empty() && waiting_ == 0 && !refined_) enqueue_refinements();
    if (queue_.empty()) return std::nullopt;
    Plan plan = std::move(queue_.front());
    queue_.pop_front();
    ++waiting_;
    return plan;
  }

  void tell(const Plan& plan, std::optional<double> score) override {
    --waiting_;
    if (score && !refined_) scored_.emplace_back(*score, plan);
  }

  int remaining() const override { return static_cast<int>(queue_.size()); }

 private:
  void enqueue(Plan plan) {
    if (known_.insert(to_text(plan.schedule)).second) queue_.push_back(std::move(plan));
  }

  void enqueue_refinements() {
    refined_ = true;
    std::stable_sort(scored_.begin(), scored_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < scored_.size() && i < kRefinedPlans; ++i) {
      for (Plan& plan : refine(scored_[i].second)) enqueue(std::move(plan));
    }
  }

  std::deque<Plan> queue_;
  std::set<std::string> known_;
  std::vector<std::pair<double, Plan>> scored_;
  int waiting_ = 0;
  bool refined_ = false;
};

class RandomStrategy final : public Strategy {
 public:
  RandomStrategy(SearchSpace space, std::uint64_t seed) {
    std::set<std::string> known;
    const auto add = [&](Plan plan) {
      if (known.insert(to_text(plan.schedule)).second) plans_.push_back(std::move(plan));
    };
    for (Plan& plan : space.plans) add(std::move(plan));
    const std::size_t unrefined = plans_.size();
    for (std::size_t i = 0; i < unrefined; ++i) {
      for (Plan& plan : refine(plans_[i])) add(std::move(plan));
    }
    std::vector<Plan> others(std::make_move_iterator(plans_.begin() + 1), std::make_move_iterator(plans_.end()));
    Random(seed).shuffle(others);
    plans_.resize(1);
    for (std::size_t i = 0; i < others.size() && plans_.size() < kRandomPlans; ++i) plans_.push_back(std::move(others[i]));
  }

  std::optional<Plan> ask() override {
    if (next_ == plans_.size()) return std::nullopt;
    return plans_[next_++];
  }

  void tell(const Plan&, std::optional<double>) override {}

  int remaining() const override { return static_cast<int>(plans_.size() - next_); }

 private:
  std::vector<Plan> plans_;
  std::size_t next_ = 0;
};

}  // namespace

const char* to_text(SearchKind kind) { return kind == SearchKind::exhaustive ? "exhaustive" : "random"; }

Result<SearchKind> parse_search_kind(std::string_view text) {
  return text::parse_enum(text, "search", std::array{SearchKind::exhaustive, SearchKind::random});
}

std::unique_ptr<Strategy> make_strategy(SearchKind kind, SearchSpace space, std::uint64_t seed) {
  if (kind == SearchKind::random) return std::make_unique<RandomStrategy>(std::move(space), seed);
  return std::make_unique<ExhaustiveStrategy>(std::move(space));
}

}  // namespace headnorm
