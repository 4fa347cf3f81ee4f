// TrialLog: what became of every candidate of the search that a record came out of, for tools that want the whole space and not the
// winner alone. Kept beside the record as DB/trials/<record id>.json; no look-up reads it, and a record is whole without it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "runtime/database/record.h"

namespace headnorm {

// One candidate that the search built: its times, or why it cannot win.
struct Trial {
  std::string schedule;  // canonical text
  // What its comparison with the winner gave, side by side in the same rounds: the winner's median times the ratio of the two. A
  // machine that slows down between two rounds so slows both. 0 if the candidate failed.
  double time_us = 0;
  std::vector<double> samples_us;  // of its own rounds, on the same scale; empty if they were taken by an interrupted process
  std::string failure;             // kind, as in CandidateCounts::rejected; empty: measured
  std::string message;             // of the failure, kMostMessageBytes at most
  // Wall time that the search spent on it; 0: by an interrupted process, not known.
  double compile_ms = 0, verify_ms = 0, measure_ms = 0;
};

struct TrialLog {
  static constexpr std::size_t kMostTrials = 16384;
  static constexpr std::size_t kMostSamples = 64;  // of a trial
  static constexpr std::size_t kMostMessageBytes = 200;

  std::string record_id, record_digest;  // of the record: a log of one search says nothing about another
  std::vector<Trial> trials;             // sorted by schedule, the winner among them

  bool belongs_to(const Record& record) const;
};

// SHA-256 of all that the record says but for its kernel, in 64 hexadecimal digits.
std::string record_digest(const Record& record);

inline constexpr std::size_t kMostTrialLogBytes = std::size_t{32} << 20;

// Sealed JSON (one object, sorted keys) and back. Reading refuses what record_from_json refuses of its own kind, and lists beyond
// the limits above.
std::string to_json(const TrialLog& log);
Result<TrialLog> trial_log_from_json(std::string_view text);

}  // namespace headnorm
