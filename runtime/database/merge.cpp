#include "runtime/database/merge.h"

#include <fmt/format.h>

#include "runtime/database/sealed_json.h"

namespace headnorm {
namespace {

using sealed_json::Json;
using sealed_json::Reader;

constexpr int kFormat = 1;

Result<MergeEntry> read_entry(const Json& json) {
  if (!json.is_object()) return user_error("an entry of the merge is not an object", "delete the file");
  Reader fields(json, "entry");
  HEADNORM_TRY(const std::string record, fields.text("record"));
  HEADNORM_TRY(const std::string trials, fields.text("trials"));
  HEADNORM_CHECK(fields.finish());
  MergeEntry entry;
  HEADNORM_TRY(entry.record, record_from_json(record));
  if (!trials.empty()) {
    HEADNORM_TRY(entry.trials, trial_log_from_json(trials));
  }
  return entry;
}

}  // namespace

bool is_better(const Record& a, const Record& b) {
  if (a.evidence != b.evidence) return a.evidence < b.evidence;
  if (a.created != b.created) return a.created > b.created;
  if (a.time.median_us != b.time.median_us) return a.time.median_us < b.time.median_us;
  if (a.kernel.sha256.empty() != b.kernel.sha256.empty()) return b.kernel.sha256.empty();
  return to_json(a) < to_json(b);
}

std::string pending_to_json(const std::vector<MergeEntry>& entries) {
  Json list = Json::array();
  for (const MergeEntry& entry : entries)
    list.push_back({{"record", to_json(entry.record)}, {"trials", entry.trials ? to_json(*entry.trials) : std::string()}});
  return sealed_json::write({{"format", kFormat}, {"entries", list}}, sealed_json::Layout::compact);
}

Result<std::vector<MergeEntry>> pending_from_json(std::string_view text) {
  HEADNORM_TRY(const Json json, sealed_json::read(text, kMostPendingBytes));
  Reader fields(json, "merge");
  HEADNORM_CHECK(fields.integer("format", kFormat, kFormat));
  HEADNORM_TRY(const Json* list, fields.array("entries"));
  HEADNORM_CHECK(fields.finish());
  std::vector<MergeEntry> entries;
  for (const Json& json_entry : *list) {
    HEADNORM_TRY(MergeEntry entry, read_entry(json_entry));
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace headnorm
