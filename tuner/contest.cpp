#include "tuner/contest.h"

#include <algorithm>

namespace headnorm {

std::optional<double> Contestant::score() const {
  if (rejection || samples().ratios.empty()) return std::nullopt;
  return quantile(samples().ratios, 0.5);
}

Samples Contestant::samples_with_closing() const {
  Samples all = samples();
  all.times_us.insert(all.times_us.end(), closing.times_us.begin(), closing.times_us.end());
  all.ratios.insert(all.ratios.end(), closing.ratios.begin(), closing.ratios.end());
  return all;
}

Result<bool> Contest::round(const std::vector<Contestant*>& contestants, Samples Contestant::*samples) {
  std::vector<Contestant*> order = contestants;
  random_.shuffle(order);
  double copy_us = 1;
  if (copy_ != nullptr) {
    HEADNORM_TRY(copy_us, copy_->measure_us(bytes_));
    if (copy_us <= 0) return internal_error("a copy took no time at all");
  }
  for (Contestant* contestant : order) {
    if (contestant->rejection) continue;
    if (!may_continue_()) return false;
    HEADNORM_TRY(const Trials::Outcome outcome, trials_->run(*contestant->kernel));
    contestant->rejection = outcome.rejection;
    if (outcome.rejection) continue;
    (contestant->*samples).times_us.push_back(outcome.time_us);
    (contestant->*samples).ratios.push_back(outcome.time_us / copy_us);
  }
  return true;
}

std::vector<Contestant*> ranked(const std::vector<Contestant*>& contestants) {
  std::vector<std::pair<double, Contestant*>> scored;
  for (Contestant* contestant : contestants) {
    if (const std::optional<double> score = contestant->score()) scored.emplace_back(*score, contestant);
  }
  std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Contestant*> order;
  for (const auto& [score, contestant] : scored) order.push_back(contestant);
  return order;
}

}  // namespace headnorm
