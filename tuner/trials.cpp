// The trials of a search: every candidate's outcome on one scale, see runtime/database/trial_log.h.
#include <algorithm>

#include "tuner/search.h"

namespace headnorm {
namespace {

// What fits into a log, and no part of a character.
std::string shortened(const std::string& message) {
  if (message.size() <= TrialLog::kMostMessageBytes) return message;
  std::size_t end = TrialLog::kMostMessageBytes;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;
  return message.substr(0, end);
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

Trial failed_trial(const std::string& schedule, const Rejection& rejection) {
  Trial trial;
  trial.schedule = schedule;
  trial.failure = rejection.kind;
  trial.message = shortened(rejection.message);
  return trial;
}

}  // namespace

// Of this process, or of an earlier one that was interrupted; 0: of neither.
double Search::screening_score(const Contestant& contestant) const {
  if (!contestant.screening.ratios.empty()) return median(contestant.screening.ratios);
  for (const auto& [score, plan] : remembered_) {
    if (plan.schedule == contestant.plan.schedule) return score;
  }
  return 0;
}

// Compares the rounds that both took part in: so the winner, which is the best of each stage of its finals, is the least of all.
double Search::time_ratio(const Contestant& contestant, const Contestant& best) const {
  const std::size_t rounds = contestant.finals.ratios.size();
  if (rounds + 1 >= best.finals.ratios.size() && contestant.score()) return *contestant.score() / *best.score();
  if (rounds > 0) {
    const std::vector<double>& all = best.finals.ratios;
    return median(contestant.finals.ratios) / median({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rounds)});
  }
  const double own = screening_score(contestant), of_best = screening_score(best);
  return of_best > 0 ? own / of_best : own / *best.score();
}

TrialLog Search::make_trials(const Contestant& best, const Record& record) const {
  std::map<std::string, Trial> trials;
  for (const auto& [schedule, rejection] : recalled_rejections_) trials[schedule] = failed_trial(schedule, rejection);
  for (const auto& [score, plan] : remembered_) {
    Contestant earlier;
    earlier.plan = plan;
    Trial& trial = trials[to_text(plan.schedule)];
    trial.schedule = to_text(plan.schedule);
    trial.time_us = record.time.median_us * time_ratio(earlier, best);
  }
  for (const auto& [schedule, contestant] : contestants_) {
    Trial trial;
    if (contestant->rejection) {
      trial = failed_trial(schedule, *contestant->rejection);
    } else if (contestant->score()) {
      trial.schedule = schedule;
      trial.time_us = record.time.median_us * time_ratio(*contestant, best);
      for (const double ratio : contestant->samples().ratios)
        trial.samples_us.push_back(trial.time_us * ratio / *contestant->score());
    } else {
      continue;  // built and not timed: nothing is known, or an earlier process timed it
    }
    trial.compile_ms = contestant->compile_s * 1e3;
    trial.verify_ms = contestant->verify_s * 1e3;
    trial.measure_ms = contestant->measure_s * 1e3;
    trials[schedule] = std::move(trial);
  }
  TrialLog log{record.id, record_digest(record), {}};
  for (auto& [schedule, trial] : trials) {
    if (log.trials.size() < TrialLog::kMostTrials) log.trials.push_back(std::move(trial));
  }
  return log;
}

}  // namespace headnorm
