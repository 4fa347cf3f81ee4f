#include "generator/export/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/text.h"
#include "generator/export/format.h"

namespace headnorm::exports {
namespace {

constexpr const char* kFormat = "1";

// ---- writing -------------------------------------------------------------------------------------------------------------------

std::string quoted(const std::string& cell) {
  const bool plain = cell.find_first_of(",\"\r\n") == std::string::npos && !cell.starts_with(' ') && !cell.ends_with(' ');
  if (plain) return cell;
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

std::string rejected_text(const std::map<std::string, int>& rejected) {
  std::string text;
  for (const auto& [kind, count] : rejected) text += fmt::format("{}{}={}", text.empty() ? "" : ";", kind, count);
  return text;
}

struct Column {
  const char* name;
  std::string (*cell)(const Record& record);
};

constexpr Column kColumns[] = {
    {"format_version", [](const Record&) { return std::string(kFormat); }},
    {"record", [](const Record& r) { return r.id; }},
    {"kernel", [](const Record& r) { return kernel_name(r.spec); }},
    {"spec", [](const Record& r) { return to_text(r.spec); }},
    {"rows", [](const Record& r) { return fmt::to_string(r.rows); }},
    {"heads", [](const Record& r) { return fmt::to_string(r.spec.heads()); }},
    {"head_size", [](const Record& r) { return fmt::to_string(r.spec.head_size); }},
    {"dtype", [](const Record& r) { return std::string(framework_dtype(r.spec.x_dtype)); }},
    {"device_name", [](const Record& r) { return r.device.name; }},
    {"device_kind", [](const Record& r) { return r.device.kind; }},
    {"device_id", [](const Record& r) { return r.device.id; }},
    {"target", [](const Record& r) { return to_text(r.device.target); }},
    {"units", [](const Record& r) { return fmt::to_string(r.device.units); }},
    {"memory_bytes", [](const Record& r) { return fmt::to_string(r.device.memory_bytes); }},
    {"cache_bytes", [](const Record& r) { return fmt::to_string(r.device.cache_bytes); }},
    {"driver", [](const Record& r) { return r.device.driver; }},
    {"policy", [](const Record& r) { return std::string(to_text(r.policy)); }},
    {"evidence", [](const Record& r) { return std::string(to_text(r.evidence)); }},
    {"schedule", [](const Record& r) { return to_text(r.schedule); }},
    {"time_us_median", [](const Record& r) { return fmt::to_string(r.time.median_us); }},
    {"time_us_p20", [](const Record& r) { return fmt::to_string(r.time.p20_us); }},
    {"time_us_p80", [](const Record& r) { return fmt::to_string(r.time.p80_us); }},
    {"samples", [](const Record& r) { return fmt::to_string(r.time.samples); }},
    {"bytes", [](const Record& r) { return fmt::to_string(r.bytes); }},
    {"gb_per_s", [](const Record& r) { return fmt::to_string(r.gb_per_s()); }},
    {"copy_ratio", [](const Record& r) { return fmt::to_string(r.copy_ratio); }},
    {"candidates_legal", [](const Record& r) { return fmt::to_string(r.candidates.legal); }},
    {"candidates_verified", [](const Record& r) { return fmt::to_string(r.candidates.verified); }},
    {"candidates_measured", [](const Record& r) { return fmt::to_string(r.candidates.measured); }},
    {"candidates_rejected", [](const Record& r) { return rejected_text(r.candidates.rejected); }},
    {"search", [](const Record& r) { return r.search; }},
    {"seed", [](const Record& r) { return fmt::to_string(r.seed); }},
    {"created", [](const Record& r) { return r.created; }},
    {"tool", [](const Record& r) { return r.tool; }},
};

// ---- reading -------------------------------------------------------------------------------------------------------------------

Error refused(std::size_t line, const std::string& what) {
  return user_error(fmt::format("line {}: {}", line, what), "give a file that 'headnorm export --format csv' wrote");
}

// Records of cells; a cell in quotes may hold line ends.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  std::size_t line() const { return line_; }

  Result<std::vector<std::string>> read_row() {
    std::vector<std::string> cells;
    while (true) {
      HEADNORM_TRY(std::string cell, read_cell());
      cells.push_back(std::move(cell));
      if (take(',')) continue;
      take('\r');
      if (!at_end() && !take('\n')) return refused(line_, "a cell goes on behind its closing quote");
      ++line_;
      return cells;
    }
  }

 private:
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Result<std::string> read_cell() {
    if (!take('"')) {
      const std::size_t end = std::min(rest_.find_first_of(",\r\n"), rest_.size());
      std::string cell(rest_.substr(0, end));
      rest_.remove_prefix(end);
      return cell;
    }
    std::string cell;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"' && !take('"')) return cell;
      if (c == '\n') ++line_;
      cell += c;
    }
    return refused(line_, "a quote is never closed");
  }

  std::string_view rest_;
  std::size_t line_ = 1;
};

using Cells = std::map<std::string, std::string>;

template <class Number>
Result<void> read_integer(const Cells& cells, const char* name, Number& number) {
  HEADNORM_TRY(const std::int64_t value, text::parse_integer(cells.at(name), name));
  if (value < 0 || static_cast<std::int64_t>(static_cast<Number>(value)) != value)
    return user_error(fmt::format("{} {} is out of range", name, value), "give a number of at least 0");
  number = static_cast<Number>(value);
  return {};
}

Result<void> read_seed(const std::string& cell, std::uint64_t& seed) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), seed);
  if (error != std::errc() || end != cell.data() + cell.size())
    return user_error(fmt::format("seed '{}' is not a number of 64 bits", cell), "give a number of at least 0");
  return {};
}

Result<void> read_rejected(const std::string& cell, std::map<std::string, int>& rejected) {
  if (cell.empty()) return {};
  for (const std::string_view part : text::split(cell, ';')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return user_error(fmt::format("'{}' is not KIND=NUMBER", part), "give candidates_rejected as compile=2;incorrect=1");
    const Cells count = {{"count", std::string(part.substr(equals + 1))}};
    HEADNORM_CHECK(read_integer(count, "count", rejected[std::string(part.substr(0, equals))]));
  }
  return {};
}

Result<void> read_device(const Cells& cells, DeviceInfo& device) {
  device.name = cells.at("device_name");
  device.kind = cells.at("device_kind");
  device.id = cells.at("device_id");
  device.driver = cells.at("driver");
  HEADNORM_TRY(device.target, parse_target(cells.at("target")));
  HEADNORM_CHECK(read_integer(cells, "units", device.units));
  HEADNORM_CHECK(read_integer(cells, "memory_bytes", device.memory_bytes));
  return read_integer(cells, "cache_bytes", device.cache_bytes);
}

Result<void> read_time(const Cells& cells, Record& record) {
  HEADNORM_TRY(record.time.median_us, text::parse_number(cells.at("time_us_median"), "time_us_median"));
  HEADNORM_TRY(record.time.p20_us, text::parse_number(cells.at("time_us_p20"), "time_us_p20"));
  HEADNORM_TRY(record.time.p80_us, text::parse_number(cells.at("time_us_p80"), "time_us_p80"));
  HEADNORM_TRY(record.copy_ratio, text::parse_number(cells.at("copy_ratio"), "copy_ratio"));
  HEADNORM_CHECK(read_integer(cells, "samples", record.time.samples));
  return read_integer(cells, "bytes", record.bytes);
}

Result<void> read_candidates(const Cells& cells, CandidateCounts& counts) {
  HEADNORM_CHECK(read_integer(cells, "candidates_legal", counts.legal));
  HEADNORM_CHECK(read_integer(cells, "candidates_verified", counts.verified));
  HEADNORM_CHECK(read_integer(cells, "candidates_measured", counts.measured));
  return read_rejected(cells.at("candidates_rejected"), counts.rejected);
}

Result<Record> read_record(const Cells& cells) {
  Record record;
  if (cells.at("format_version") != kFormat)
    return user_error(fmt::format("format_version {} is not {}", cells.at("format_version"), kFormat), "export it again");
  record.id = cells.at("record");
  HEADNORM_TRY(record.spec, parse_spec(cells.at("spec")));
  HEADNORM_CHECK(read_integer(cells, "rows", record.rows));
  HEADNORM_CHECK(read_device(cells, record.device));
  HEADNORM_TRY(record.policy, parse_cache_policy(cells.at("policy")));
  HEADNORM_TRY(record.evidence, parse_evidence(cells.at("evidence")));
  HEADNORM_TRY(record.schedule, parse_schedule(cells.at("schedule"), record.device.target.kind));
  HEADNORM_CHECK(read_time(cells, record));
  HEADNORM_CHECK(read_candidates(cells, record.candidates));
  HEADNORM_CHECK(read_seed(cells.at("seed"), record.seed));
  record.search = cells.at("search");
  record.created = cells.at("created");
  record.tool = cells.at("tool");
  // Holds it to all the rules of a record.
  return record_from_json(to_json(record));
}

Result<void> check_header(const std::vector<std::string>& header) {
  for (const Column& column : kColumns) {
    if (std::count(header.begin(), header.end(), column.name) != 1)
      return refused(1,
                     fmt::format("the column '{}' is {}", column.name,
                                 std::find(header.begin(), header.end(), column.name) == header.end() ? "missing" : "there twice"));
  }
  return {};
}

}  // namespace

Result<std::vector<File>> render_csv(const std::vector<Row>& rows, const std::string&) {
  const Fields fields = fields_of(rows);
  std::string text;
  for (const Column& column : kColumns) text += fmt::format("{}{}", text.empty() ? "" : ",", column.name);
  for (const Fields::Field& field : fields.list()) text += fmt::format(",schedule_{}", field.name);
  text += "\n";
  for (const Row& row : rows) {
    std::string line;
    for (const Column& column : kColumns) line += fmt::format("{}{}", line.empty() ? "" : ",", quoted(column.cell(row.record)));
    for (const Value& value : fields.values(to_text(row.record.schedule))) line += "," + quoted(value_text(value));
    text += line + "\n";
  }
  return std::vector<File>{{"tuned.csv", text}};
}

Result<std::vector<Record>> records_from_csv(std::string_view text) {
  Parser parser(text);
  HEADNORM_TRY(const std::vector<std::string> header, parser.read_row());
  HEADNORM_CHECK(check_header(header));
  std::vector<Record> records;
  while (!parser.at_end()) {
    const std::size_t line = parser.line();
    HEADNORM_TRY(const std::vector<std::string> row, parser.read_row());
    if (row.size() != header.size())
      return refused(line, fmt::format("{} cells, the first line has {}", row.size(), header.size()));
    if (records.size() == kMostCsvRows) return refused(line, fmt::format("more than {} records", kMostCsvRows));
    Cells cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells[header[i]] = row[i];
    Result<Record> record = read_record(cells);
    if (!record.ok()) return refused(line, record.error().message);
    records.push_back(*std::move(record));
  }
  return records;
}

}  // namespace headnorm::exports
