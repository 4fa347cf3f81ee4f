// The finals of a search: the best of the screening, measured again side by side.
#include <algorithm>

#include "tuner/search.h"

namespace headnorm {
namespace {

constexpr double kMostFinalsShare = 0.3;  // of the budget

// The finals: so many of the best, so many rounds each; then the best of those, and so on.
struct Stage {
  std::size_t contestants;
  int rounds;
};
constexpr Stage kStages[] = {{12, 5}, {4, 8}, {2, 12}};
constexpr int kFinalRounds = 25;
constexpr int kMostFinalTrials = [] {
  int trials = 0;
  for (const Stage& stage : kStages) trials += static_cast<int>(stage.contestants) * stage.rounds;
  return trials;
}();
constexpr std::size_t kFewestFinalists = 4;

}  // namespace

// What the finals take, as far as the screening tells. Finalists that an earlier process scored must be built first.
double Search::finals_reserve_s() const {
  const double most = kMostFinalsShare * (deadline_s_ - begin_s_);
  return screening_trials_ == 0 || !remembered_.empty() ? most : std::min(most, kMostFinalTrials * trial_s());
}

bool Search::may_run_finals() const { return !stopped() && (services_.now_s() < deadline_s_ || !any_score()); }

Result<std::vector<Contestant*>> Search::choose_finalists() {
  std::vector<std::pair<double, Plan>> scored = remembered_;
  for (const auto& [text, contestant] : contestants_) {
    if (const auto score = contestant->score()) scored.emplace_back(*score, contestant->plan);
  }
  std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::size_t wanted = std::clamp<std::size_t>((scored.size() + 3) / 4, kFewestFinalists, kStages[0].contestants);
  std::vector<Contestant*> finalists;
  for (const auto& [score, plan] : scored) {
    if (finalists.size() == wanted || stopped()) break;
    const auto found = contestants_.find(to_text(plan.schedule));
    Contestant* contestant = found == contestants_.end() ? nullptr : found->second.get();
    if (contestant == nullptr) {
      HEADNORM_TRY(contestant, build(plan));
    }
    if (contestant->rejection)
      take_back(plan, *contestant->rejection);
    else
      finalists.push_back(contestant);
  }
  return finalists;
}

// Right in the screening and wrong later: a race inside the kernel.
void Search::drop_rejected(std::vector<Contestant*>& finalists) {
  for (const Contestant* contestant : finalists) {
    if (contestant->rejection) take_back(contestant->plan, *contestant->rejection);
  }
  std::erase_if(finalists, [](const Contestant* contestant) { return contestant->rejection.has_value(); });
}

Result<void> Search::run_finals() {
  HEADNORM_TRY(std::vector<Contestant*> finalists, choose_finalists());
  Contest contest(*trials_, copy_.get(), bytes_, ~request_.seed, [this] { return may_run_finals(); });
  int done = 0;
  for (const Stage& stage : kStages) {
    if (finalists.size() > stage.contestants) finalists.resize(stage.contestants);
    for (int round = 0; round < stage.rounds; ++round, ++done) {
      report(TunePhase::finals, done, kFinalRounds, std::max(0.0, deadline_s_ - services_.now_s()));
      const double begin_s = services_.now_s();
      HEADNORM_TRY(const bool complete, contest.round(finalists, &Contestant::finals));
      for (Contestant* finalist : finalists)
        finalist->measure_s += (services_.now_s() - begin_s) / static_cast<double>(finalists.size());
      drop_rejected(finalists);
      if (!complete) return {};
    }
    finalists = ranked(finalists);
  }
  return {};
}

Contestant* Search::winner() {
  // Those that came furthest in the finals were timed side by side most often: one of them wins.
  std::size_t most = 0;
  std::vector<Contestant*> all;
  for (const auto& [text, contestant] : contestants_) {
    if (!contestant->score()) continue;
    all.push_back(contestant.get());
    most = std::max(most, contestant->finals.times_us.size());
  }
  std::erase_if(all, [&](const Contestant* contestant) { return contestant->finals.times_us.size() + 1 < most; });
  const std::vector<Contestant*> order = ranked(all);
  return order.empty() ? nullptr : order[0];
}

// The winner with no fewer than kFewestSamples, whatever the budget; null if there is none. Its rounds alone do not change its
// score, so that they cost no other candidate the place; one that they find wrong loses it.
Result<Contestant*> Search::complete_winner() {
  Contest contest(*trials_, copy_.get(), bytes_, ~request_.seed, [this] { return !stopped(); });
  Contestant* best = winner();
  while (best != nullptr && std::ssize(best->samples_with_closing().times_us) < kFewestSamples && !stopped()) {
    const double begin_s = services_.now_s();
    HEADNORM_CHECK(contest.round({best}, &Contestant::closing));
    best->measure_s += services_.now_s() - begin_s;
    if (!best->rejection) continue;
    take_back(best->plan, *best->rejection);
    best = winner();
  }
  return best;
}

}  // namespace headnorm
