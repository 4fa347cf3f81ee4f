// Tuner: finds the best schedule of a spec for each of several row counts on one device, and publishes it in a database.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/codegen_backend.h"
#include "runtime/database/database.h"
#include "runtime/device.h"
#include "tuner/measure.h"
#include "tuner/strategy.h"
#include "tuner/verification.h"

namespace headnorm {

enum class Retune : std::uint8_t {
  missing,  // a row count whose measured record is there is answered with it
  always,
};

struct TuneRequest {
  KernelSpec spec;
  std::vector<std::int64_t> rows;
  CachePolicy policy = CachePolicy::cold;
  SearchKind search = SearchKind::exhaustive;
  double budget_s = 60;  // for all row counts together; the winner of each is timed kFewestSamples times, whatever it is
  std::uint64_t seed = 1;
  Retune retune = Retune::missing;
  std::string tool;  // for Record::tool
};

enum class TunePhase : std::uint8_t {
  waiting,    // for the process of `holder_pid`, which tunes into the same database
  preparing,  // data, reference, operand sets
  screening,  // every candidate a few times
  finals,     // the best again, side by side
};
const char* to_text(TunePhase phase);

struct TuneProgress {
  TunePhase phase = TunePhase::preparing;
  std::int64_t rows = 0;
  int done = 0, total = 0;  // candidates (screening) or rounds (finals)
  double best_us = 0;       // 0: none yet
  double best_copy_ratio = 0;
  std::string best_schedule;
  double eta_s = 0;  // to the end of this row count
  int holder_pid = 0;
};

// Functions may be empty but for reference and now_s.
struct TuneServices {
  Device& device;
  CodegenBackend& backend;
  Database& database;
  Reference reference;
  // The copy to pair measurements with, for launches of up to so many bytes; empty or null: none is known for the device.
  std::function<Result<std::unique_ptr<CopyReference>>(std::int64_t largest_bytes)> make_copy;
  std::function<double()> now_s;         // a clock that never goes back
  std::function<bool()> stop_requested;  // asked between operand sets and launches; once true, always true
  std::function<void(const TuneProgress&)> progress;
  std::function<void(const std::string&)> warn;
};

struct TunedRow {
  Record record;
  enum class Origin : std::uint8_t { tuned, stored } origin = Origin::tuned;
};

struct TuneReport {
  std::vector<TunedRow> results;  // in the order of the request
  bool interrupted = false;       // by stop_requested: the same request continues where this one stopped
};

// A candidate that fails to compile, load or launch, writes outside its outputs or writes a wrong value is counted under its kind
// in Record::candidates and never wins. Errors: the request or its spec is wrong (user); memory, database (environment); no
// candidate is right (internal).
Result<TuneReport> tune(const TuneRequest& request, const TuneServices& services);

}  // namespace headnorm
