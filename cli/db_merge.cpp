#include "cli/db_merge.h"

#include <fmt/format.h>

#include <map>

#include "cli/merge_input.h"
#include "cli/record_json.h"
#include "core/counted.h"

namespace headnorm::cli {
namespace {

void append(std::vector<MergeEntry>& to, std::vector<MergeEntry> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// What a record says, but for where its compiled code is.
std::string content(const Record& record) {
  Record bare = record;
  bare.kernel = {};
  return to_json(bare);
}

std::map<std::string, Record> by_id(const std::vector<MergeEntry>& entries) {
  std::map<std::string, Record> records;
  for (const MergeEntry& entry : entries) records.emplace(entry.record.id, entry.record);
  return records;
}

void add_difference(Report& report, const char* kind, const char* sign, const Record& record) {
  report.document[kind].push_back(result_json(record));
  report.text += fmt::format("{} {}  {}, {}, {:.2f} us {}\n", sign, record.id.substr(0, 8), counted(record.rows, "row"),
                             short_spec(record.spec), record.time.median_us, to_text(record.evidence));
}

}  // namespace

Result<std::vector<MergeEntry>> read_databases(const std::vector<std::string>& others, const Context& context) {
  if (others.empty()) return user_error("db merge is given no database", "give the directories of those to merge in");
  std::vector<MergeEntry> entries;
  for (const std::string& other : others) {
    HEADNORM_TRY(std::vector<MergeEntry> more, read_database(other, context));
    append(entries, std::move(more));
  }
  return entries;
}

Result<std::vector<MergeEntry>> read_imports(const std::string& format, const std::vector<std::string>& files) {
  if (files.empty()) return user_error("db import is given no file", "give files that 'headnorm export' wrote");
  std::vector<MergeEntry> entries;
  for (const std::string& file : files) {
    HEADNORM_TRY(std::vector<MergeEntry> more, read_import(format, file));
    append(entries, std::move(more));
  }
  return entries;
}

Result<Report> take_in(const std::vector<MergeEntry>& entries, Database& into) {
  HEADNORM_TRY(const MergeCounts counts, into.merge(entries));
  Report report;
  report.document["directory"] = into.directory().string();
  report.document["added"] = counts.added;
  report.document["replaced"] = counts.replaced;
  report.document["kept"] = counts.kept;
  report.text = fmt::format("{}: {} added, {} replaced by better ones, {} kept\n", into.directory().string(),
                            counted(counts.added, "record"), counts.replaced, counts.kept);
  return report;
}

Result<Report> diff_databases(const std::string& a, const std::string& b, const Context& context) {
  HEADNORM_TRY(const std::vector<MergeEntry> in_a, read_database(a, context));
  HEADNORM_TRY(const std::vector<MergeEntry> in_b, read_database(b, context));
  const std::map<std::string, Record> left = by_id(in_a), right = by_id(in_b);
  Report report;
  for (const char* kind : {"only_left", "only_right", "differ_left", "differ_right"}) report.document[kind] = Json::array();
  for (const auto& [id, record] : left) {
    const auto other = right.find(id);
    if (other == right.end()) {
      add_difference(report, "only_left", "<", record);
    } else if (content(record) != content(other->second)) {
      add_difference(report, "differ_left", "-", record);
      add_difference(report, "differ_right", "+", other->second);
    }
  }
  for (const auto& [id, record] : right) {
    if (left.count(id) == 0) add_difference(report, "only_right", ">", record);
  }
  report.document["equal"] = report.text.empty();
  if (report.text.empty()) report.text = "the same records\n";
  return report;
}

}  // namespace headnorm::cli
