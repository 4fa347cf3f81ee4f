#include "runtime/database/tuned_table.h"

#include <fmt/format.h>

#include <limits>
#include <map>

#include "runtime/database/record_fields.h"
#include "runtime/database/sealed_json.h"

namespace headnorm {
namespace {

using sealed_json::Json;
using sealed_json::Reader;

constexpr int kFormat = 1;
constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();

// Places in the list of numbers of a record.
constexpr std::size_t kPredictedNumbers = 4;  // spec, rows, schedule, median
constexpr std::size_t kMeasuredNumbers = 8;   // and p20, p80, samples, ratio to a copy

Error damaged(const std::string& what) {
  return user_error("the tuned table is damaged: " + what,
                    "install headnorm again, or make the table again with tools/make_tuning_db");
}

bool agree(const Record& a, const Record& b) {
  return record_fields::device_json(a.device) == record_fields::device_json(b.device) && a.evidence == b.evidence &&
         a.policy == b.policy && a.search == b.search && a.seed == b.seed && a.created == b.created && a.tool == b.tool &&
         a.provenance == b.provenance;
}

// Numbers of texts in the order of their first use.
class Texts {
 public:
  std::size_t number(const std::string& text) {
    const auto [place, is_new] = numbers_.try_emplace(text, list_.size());
    if (is_new) list_.push_back(text);
    return place->second;
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> list_;
};

Json numbers_of(const Record& record, Texts& specs, Texts& schedules) {
  Json numbers = {specs.number(to_text(record.spec)), record.rows, schedules.number(to_text(record.schedule)),
                  record.time.median_us};
  if (record.evidence == Evidence::predicted) return numbers;
  for (const Json& more : {Json(record.time.p20_us), Json(record.time.p80_us), Json(record.time.samples), Json(record.copy_ratio)})
    numbers.push_back(more);
  return numbers;
}

// A record or text a line, so that versions of a table can be compared line by line.
std::string lines(const Json& list) {
  std::string text;
  for (const Json& item : list) text += fmt::format("{}\n    {}", text.empty() ? "" : ",", item.dump());
  return "[" + text + "\n  ]";
}

std::string render(const Json& table) {
  std::string text;
  for (const auto& [key, value] : table.items())
    text += fmt::format("{}\n  {}: {}", text.empty() ? "" : ",", Json(key).dump(), value.is_array() ? lines(value) : value.dump());
  return "{" + text + "\n}\n";
}

Result<std::vector<KernelSpec>> read_specs(const Json& texts) {
  std::vector<KernelSpec> specs;
  for (const Json& text : texts) {
    if (!text.is_string()) return damaged("a spec that is no text");
    HEADNORM_TRY(specs.emplace_back(), parse_spec(text.get<std::string>()));
  }
  return specs;
}

Result<std::vector<Schedule>> read_schedules(const Json& texts, TargetKind kind) {
  std::vector<Schedule> schedules;
  for (const Json& text : texts) {
    if (!text.is_string()) return damaged("a schedule that is no text");
    HEADNORM_TRY(schedules.emplace_back(), parse_schedule(text.get<std::string>(), kind));
  }
  return schedules;
}

// What all records of the table share.
Result<Record> read_shared(Reader& fields) {
  Record record;
  HEADNORM_TRY(const Json* device, fields.object("device"));
  HEADNORM_TRY(record.device, record_fields::read_device(*device));
  HEADNORM_TRY(record.evidence, record_fields::read_evidence_kind(fields));
  HEADNORM_TRY(const std::string policy, fields.text("policy"));
  HEADNORM_TRY(record.policy, parse_cache_policy(policy));
  HEADNORM_TRY(record.search, fields.text("search"));
  HEADNORM_TRY(record.seed, fields.unsigned_integer("seed"));
  HEADNORM_TRY(record.created, fields.text("created"));
  HEADNORM_TRY(record.tool, fields.text("tool"));
  HEADNORM_TRY(record.provenance, fields.text("provenance"));
  return record;
}

struct Row {
  std::size_t spec = 0;
  Record record;
};

Result<Row> read_row(const Json& numbers, const Record& shared, const std::vector<KernelSpec>& specs,
                     const std::vector<Schedule>& schedules) {
  const std::size_t count = shared.evidence == Evidence::predicted ? kPredictedNumbers : kMeasuredNumbers;
  if (!numbers.is_array() || numbers.size() != count) return damaged(fmt::format("a record that is not {} numbers", count));
  for (const Json& number : numbers) {
    if (!number.is_number() || number.get<double>() < 0) return damaged("a record with what is no number of at least 0");
  }
  for (std::size_t i : {0, 1, 2, 6}) {
    if (i < count && !numbers[i].is_number_integer()) return damaged("a record with a part of a number");
  }
  Row row{numbers[0].get<std::size_t>(), shared};
  const auto schedule = numbers[2].get<std::size_t>();
  row.record.rows = numbers[1].get<std::int64_t>();
  if (row.spec >= specs.size() || schedule >= schedules.size() || row.record.rows < 1)
    return damaged("a record that names a spec or schedule which is not there, or no rows");
  row.record.spec = specs[row.spec];
  row.record.schedule = schedules[schedule];
  const Traffic traffic = minimum_traffic(row.record.spec);
  if (row.record.rows > (kMaxInteger - traffic.weight_bytes) / traffic.total_bytes(1)) return damaged("a record of too many rows");
  row.record.bytes = traffic.total_bytes(row.record.rows);
  TimeStatistics& time = row.record.time;
  time.median_us = time.p20_us = time.p80_us = numbers[3].get<double>();
  if (count == kPredictedNumbers) return row;
  time.p20_us = numbers[4].get<double>();
  time.p80_us = numbers[5].get<double>();
  time.samples = numbers[6].get<int>();
  row.record.copy_ratio = numbers[7].get<double>();
  return row;
}

}  // namespace

Result<std::string> table_to_json(const std::vector<Record>& records) {
  if (records.empty()) return internal_error("a tuned table without records");
  const Record& first = records.front();
  std::map<std::pair<std::string, std::int64_t>, const Record*> sorted;
  for (const Record& record : records) {
    if (!agree(first, record)) return internal_error("records of a tuned table that do not agree");
    sorted[{to_text(record.spec), record.rows}] = &record;
  }
  Texts specs, schedules;
  Json rows = Json::array();
  for (const auto& [key, record] : sorted) rows.push_back(numbers_of(*record, specs, schedules));
  Json table = {{"format", kFormat},
                {"device", record_fields::device_json(first.device)},
                {"evidence", to_text(first.evidence)},
                {"policy", to_text(first.policy)},
                {"search", first.search},
                {"seed", first.seed},
                {"created", first.created},
                {"tool", first.tool},
                {"provenance", first.provenance},
                {"specs", specs.list()},
                {"schedules", schedules.list()},
                {"records", rows}};
  sealed_json::seal(table);
  return render(table);
}

Result<std::vector<SpecRecords>> table_from_json(std::string_view text) {
  HEADNORM_TRY(const Json json, sealed_json::read(text));
  Reader fields(json, "tuned table");
  HEADNORM_TRY(const std::int64_t format, fields.integer("format", 0, kMaxInteger));
  if (format != kFormat) return damaged(fmt::format("format {} is not {}", format, kFormat));
  HEADNORM_TRY(const Record shared, read_shared(fields));
  HEADNORM_TRY(const Json* spec_texts, fields.array("specs"));
  HEADNORM_TRY(const std::vector<KernelSpec> specs, read_specs(*spec_texts));
  HEADNORM_TRY(const Json* schedule_texts, fields.array("schedules"));
  HEADNORM_TRY(const std::vector<Schedule> schedules, read_schedules(*schedule_texts, shared.device.target.kind));
  HEADNORM_TRY(const Json* rows, fields.array("records"));
  HEADNORM_CHECK(fields.finish());
  std::vector<SpecRecords> by_spec(specs.size());
  for (const Json& numbers : *rows) {
    HEADNORM_TRY(Row row, read_row(numbers, shared, specs, schedules));
    by_spec[row.spec].push_back(std::move(row.record));
  }
  return by_spec;
}

}  // namespace headnorm
