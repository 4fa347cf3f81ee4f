// Merge: which of two records of one key stays, and the file by which a merge that was stopped is finished.
//
// The order of records is total and looks at nothing but the two, so merging is idempotent, commutative and associative: what a
// database holds after any merges, in any order and repeated, is the best record of each key.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "runtime/database/record.h"
#include "runtime/database/trial_log.h"

namespace headnorm {

struct MergeEntry {
  Record record;
  std::optional<TrialLog> trials;  // of the record
};

struct MergeCounts {
  int added = 0;     // their key was not there
  int replaced = 0;  // better than the record that was there
  int kept = 0;      // not better: the record that was there stays
};

// Of two records of one key, whether `a` stays. In this order: better evidence, so that a prediction never replaces a measurement;
// made later; the smaller median; a kernel that is named; and between records that differ in less, the smaller text.
bool is_better(const Record& a, const Record& b);

// What is still to be put in place, as one sealed JSON object, and back. Reading refuses what the database refuses of each part.
inline constexpr std::size_t kMostPendingBytes = std::size_t{512} << 20;
std::string pending_to_json(const std::vector<MergeEntry>& entries);
Result<std::vector<MergeEntry>> pending_from_json(std::string_view text);

}  // namespace headnorm
