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

  // The record, with its kernel stored in the database, not yet published; none if a stop was requested.
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
  void warn_if_cut_short() const;
  Result<Record> make_record(const Contestant& best);
  Result<void> store_unaligned_twin(const Plan& plan);

  void count_rejection(const Rejection& rejection);
  void reject(const Plan& plan, const Rejection& rejection);
  Error nothing_right() const;

  bool stopped() const { return services_.stop_requested && services_.stop_requested(); }
  bool any_score() const;
  bool may_screen() const;
  bool may_run_finals() const;
  void report_screening() const;
  void report(TunePhase phase, int done, int total, double eta_s) const;

  const TuneRequest& request_;
  const TuneServices& services_;
  const std::int64_t rows_;
  const std::int64_t bytes_;
  const double begin_s_, screening_deadline_s_, deadline_s_;

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
  CandidateCounts counts_;
  std::string first_rejection_;
  int asked_ = 0, told_ = 0;
};

}  // namespace headnorm
