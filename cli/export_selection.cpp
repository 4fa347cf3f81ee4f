#include "cli/export_selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cli/record_json.h"
#include "cli/suggest.h"
#include "cli/text_option.h"
#include "core/text.h"

namespace headnorm::cli {
namespace {

constexpr std::size_t kMostNamed = 8;

bool is_device(const Record& record, const std::string& device) {
  return device == record.device.id || device == record.device.kind || device == record.device.name;
}

std::string listed(const std::set<std::string>& names) {
  std::vector<std::string> some(names.begin(), names.end());
  const bool more = some.size() > kMostNamed;
  if (more) some.resize(kMostNamed);
  return fmt::format("{}{}", fmt::join(some, "; "), more ? "; ..." : "");
}

Error no_such_device(const std::string& device, const std::vector<Record>& records) {
  std::set<std::string> names;
  for (const Record& record : records) names.insert(fmt::format("{} ({})", record.device.id, record.device.name));
  return user_error(fmt::format("no record is of device '{}'", device),
                    suggestion(device, {names.begin(), names.end()}) + "there are records of: " + listed(names));
}

Error no_such_kernel(const KernelSpec& spec, const std::vector<Record>& records) {
  std::set<std::string> specs;
  for (const Record& record : records) specs.insert(to_text(record.spec));
  return user_error(fmt::format("no record is of kernel '{}'", to_text(spec)),
                    "give its options, or --spec TEXT with one of these: " + listed(specs));
}

Error no_such_evidence(const std::set<Evidence>& wanted, const std::vector<Record>& records) {
  std::set<std::string> kinds;
  std::vector<const char*> names;
  for (const Record& record : records) kinds.insert(to_text(record.evidence));
  for (const Evidence evidence : wanted) names.push_back(to_text(evidence));
  return user_error(fmt::format("no record of the selection is {}", fmt::join(names, " or ")),
                    fmt::format("tune on the device, or give --evidence {}", fmt::join(kinds, ",")));
}

Result<std::set<Evidence>> read_evidence(const std::string& text) {
  std::set<Evidence> kinds;
  for (const std::string_view word : text::split(text, ',')) {
    Result<Evidence> kind = parse_evidence(word);
    if (!kind.ok()) return user_error("--evidence: " + kind.error().message, kind.error().remedy);
    kinds.insert(*kind);
  }
  return kinds;
}

}  // namespace

void SelectionOptions::declare(CLI::App& command) {
  add_text_option(command, "--device", device, "DEVICE|MODEL", "only records of this device: its id, kind or name (all)");
  add_text_option(command, "--evidence", evidence, "measured|predicted|emulated",
                  "measured, predicted or emulated, or several with commas (measured)");
  shape.declare(command);
}

Result<Selection> read_selection(const SelectionOptions& options) {
  Selection selection;
  selection.device = options.device;
  HEADNORM_TRY(selection.evidence, read_evidence(options.evidence));
  if (!options.shape.names_shape()) return selection;
  HEADNORM_TRY(const Shape shape, make_shape(options.shape));
  selection.spec = shape.spec;
  return selection;
}

Result<std::vector<exports::Row>> select_rows(Database& database, const Selection& selection, std::vector<Damage>& damage) {
  HEADNORM_TRY(std::vector<Record> records, database.list(&damage));
  if (records.empty())
    return user_error(fmt::format("there are no records in '{}'", database.directory().string()),
                      "fill it with 'headnorm tune', or name another database with --db");
  const auto keep = [](std::vector<Record>& from, const auto& wanted) {
    std::vector<Record> before = from;
    std::erase_if(from, [&](const Record& record) { return !wanted(record); });
    return before;
  };
  if (selection.device) {
    const std::vector<Record> all = keep(records, [&](const Record& record) { return is_device(record, *selection.device); });
    if (records.empty()) return no_such_device(*selection.device, all);
  }
  if (selection.spec) {
    const std::vector<Record> all = keep(records, [&](const Record& record) { return record.spec == *selection.spec; });
    if (records.empty()) return no_such_kernel(*selection.spec, all);
  }
  const std::vector<Record> all = keep(records, [&](const Record& record) { return selection.evidence.contains(record.evidence); });
  if (records.empty()) return no_such_evidence(selection.evidence, all);
  std::vector<exports::Row> rows;
  for (Record& record : records) {
    HEADNORM_TRY(std::optional<TrialLog> trials, database.find_trials(record));
    rows.push_back({std::move(record), std::move(trials)});
  }
  return rows;
}

}  // namespace headnorm::cli
