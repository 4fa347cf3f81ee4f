// Search: the search for one row count, from operands to a record. The parts of tune, see tuner.h.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/contest.h"
#include "tuner/journal.h"
#include "tuner/tuner.h"

namespace headnorm {

class Search {
 public:
  // `request.spec` is canonical; both must outlive the search.
  Search(const TuneRequest& request, const TuneServices& services, std::int64_t rows, double budget_s);

  // The record, with its kernel and trials stored in the database, not yet published; none if a stop was requested.
  Result<std::optional<Record>> run();

  // Forgets the journal; to be called when the record is published.
  void finish();

 private:
  // Incomplete if a stop was requested.
  Result<void> prepare();
  Result<void> prepare_operands();
  Result<void> screen();
  Result<std::vector<Contestant*>> ask_batch();
  bool recall(const Plan& plan);
  Result<Contestant*> build(const Plan& plan);
  Result<std::optional<Rejection>> load_and_verify(Contestant& contestant);
  Result<std::optional<Rejection>> verify(const Contestant& contestant);
  Result<void> screen_batch(const std::vector<Contestant*>& batch);
  Result<std::vector<Contestant*>> choose_finalists();
  Result<void> run_finals();
  void drop_rejected(std::vector<Contestant*>& finalists);
  Contestant* winner();
  Result<Contestant*> complete_winner();
  void warn_if_cut_short() const;
  Result<Record> make_record(const Contestant& best);
  TrialLog make_trials(const Contestant& best, const Record& record) const;
  double time_ratio(const Contestant& contestant, const Contestant& best) const;
  double screening_score(const Contestant& contestant) const;
  Result<void> store_unaligned_twin(const Plan& plan);

  void count_rejection(const Rejection& rejection);
  void record_rejection(const Plan& plan, const Rejection& rejection);
  void reject(const Plan& plan, const Rejection& rejection);
  void take_back(const Plan& plan, const Rejection& rejection);
  Error nothing_right() const;

  bool stopped() const { return services_.stop_requested && services_.stop_requested(); }
  bool any_score() const;
  bool has_enough() const;
  // On the clock, so far: of one trial with its part of a copy, and of building a candidate. 0 before the first.
  double trial_s() const { return screening_trials_ > 0 ? screening_s_ / screening_trials_ : 0; }
  double build_s() const { return builds_ > 0 ? building_s_ / builds_ : 0; }
  double finals_reserve_s() const;
  double screening_deadline_s() const { return deadline_s_ - finals_reserve_s(); }
  bool may_ask(std::size_t batch_size) const;
  bool may_screen() const;
  bool may_run_finals() const;
  void report_screening() const;
  void report(TunePhase phase, int done, int total, double eta_s) const;

  const TuneRequest& request_;
  const TuneServices& services_;
  const std::int64_t rows_;
  const std::int64_t bytes_;
  const double begin_s_, deadline_s_;
  double prepared_s_ = 0;                    // when
  double screening_s_ = 0, building_s_ = 0;  // that trials and builds of the screening took together
  int screening_trials_ = 0, builds_ = 0;

  SearchSpace space_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Journal> journal_;
  std::optional<InputData> data_;
  std::optional<Verifier> verifier_;
  std::optional<Workload> small_, full_;
  std::optional<Trials> trials_;
  std::unique_ptr<CopyReference> copy_;

  // By schedule text: the contestants of this process, and the scores of an earlier one with their plans.
  std::map<std::string, std::unique_ptr<Contestant>> contestants_;
  std::vector<std::pair<double, Plan>> remembered_;
  std::map<std::string, Rejection> recalled_rejections_;
  CandidateCounts counts_;
  std::string first_rejection_;
  int asked_ = 0, told_ = 0;
};

}  // namespace headnorm
