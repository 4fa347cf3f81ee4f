// Predicted search: finds the best schedule of a spec on a modelled GPU by the cost model, without running any code.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "runtime/database/record.h"
#include "tuner/cost_model/prediction.h"
#include "tuner/strategy.h"

namespace headnorm {

struct PredictedSearchOptions {
  SearchKind search = SearchKind::exhaustive;
  std::uint64_t seed = 1;
  CachePolicy policy = CachePolicy::cold;
  std::string tool, created;  // for the record
  // Registers of a thread as an assembler gives them, asked for the best few; empty: the plans' estimates. An error ends the
  // search.
  std::function<Result<int>(const Plan&)> count_registers;
  std::string assembler;  // its name and version, for the record
};

// Not thread-safe. Counts each plan once, for all row counts.
class PredictedSearch {
 public:
  PredictedSearch(const KernelSpec& spec, const GpuModel& model, PredictedSearchOptions options);

  // Evidence predicted: nothing was run, verified or measured. Errors: no schedule is legal (user); of count_registers.
  Result<Record> run(std::int64_t rows);

 private:
  struct Scored {
    double time_us = 0;
    Plan plan;
  };

  Prediction predict_plan(const Plan& plan, std::int64_t rows, std::optional<int> registers = std::nullopt);
  Result<std::vector<Scored>> ask_all(std::int64_t rows, CandidateCounts& counts);
  // Of candidates sorted by time, the fastest of the simplest among those that are as good as equal.
  static const Scored& choose(const std::vector<Scored>& sorted);
  Result<void> refine_by_registers(std::vector<Scored>& best, std::int64_t rows);
  Record make_record(const Scored& best, std::int64_t rows, CandidateCounts counts) const;

  KernelSpec spec_;
  GpuModel model_;
  PredictedSearchOptions options_;
  std::map<std::string, TileCounts> counts_;  // by schedule text
  std::map<std::string, int> registers_;      // likewise, as the assembler gives them
};

}  // namespace headnorm
