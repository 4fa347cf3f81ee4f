#include "generator/export/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/plan.h"
#include "generator/export/csv.h"
#include "generator/export/row.h"
#include "runtime/database/sealed_json.h"

namespace headnorm::exports {
namespace {

using FileJson = sealed_json::Json;

Error refused(std::string message) {
  return user_error(std::move(message), "give a file that 'headnorm export' wrote, or that its consumer went on with");
}

// One configuration of a file.
struct Entry {
  std::map<std::string, std::string> configuration;
  Trial trial;
  std::string timestamp;
};

std::string text_of(const FileJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_boolean() || value.is_number() ? value.dump() : std::string();
}

Result<double> number_of(const FileJson& object, const char* name, double missing) {
  const auto found = object.find(name);
  if (found == object.end()) return missing;
  const double value = found->is_number() ? found->get<double>() : -1;
  if (!std::isfinite(value) || value < 0) return refused(fmt::format("'{}' is not a finite number of at least 0", name));
  return value;
}

Result<FileJson> member(const FileJson& object, const char* name, FileJson::value_t type) {
  const auto found = object.find(name);
  if (found == object.end() || found->type() != type) return refused(fmt::format("'{}' is missing or of another type", name));
  return *found;
}

// ---- what a file says of its record --------------------------------------------------------------------------------------------

Result<Record> record_of_sidecar(std::string_view sidecar) {
  HEADNORM_TRY(const FileJson json, sealed_json::parse_bounded(sidecar, kMostImportBytes));
  HEADNORM_TRY(const FileJson rows, member(json, "rows", FileJson::value_t::array));
  if (rows.size() != 1 || !rows[0].is_object()) return refused(fmt::format("the sidecar has {} records, not one", rows.size()));
  HEADNORM_TRY(const FileJson record, member(rows[0], "record", FileJson::value_t::object));
  return record_from_json(record.dump(-1, ' ', false, FileJson::error_handler_t::replace));
}

// "2026-08-22 02:00:00.5+00:00" as the records have it; empty if it is of another form.
std::string iso_time(const std::string& text) {
  if (text.size() < 19 || (text[10] != ' ' && text[10] != 'T')) return "";
  return text.substr(0, 10) + "T" + text.substr(11, 8) + "Z";
}

Result<Schedule> schedule_of_entry(const Record& record, const Entry& entry) {
  std::vector<std::string> names, values;
  for (const auto& [name, value] : entry.configuration) {
    names.push_back(name);
    values.push_back(value);
  }
  HEADNORM_TRY(const Schedule schedule, schedule_of(names, values, record.device.target.kind));
  HEADNORM_TRY(const Plan plan, make_plan(record.spec, schedule, record.device.target));
  return plan.schedule;
}

// Of a configuration that its consumer found: the sidecar knows nothing of its times.
void take_result(Record& record, const Trial& best, const std::string& created) {
  record.time.median_us = record.time.p20_us = record.time.p80_us = best.time_us;
  record.time.samples = std::max<int>(1, static_cast<int>(best.samples_us.size()));
  record.copy_ratio = 0;
  record.kernel = {};
  if (created > record.created) record.created = created;
}

bool is_near(double a, double b) { return std::fabs(a - b) <= 1e-9 * std::fabs(b); }

Result<std::vector<MergeEntry>> make_entry(Record record, std::vector<Entry> entries) {
  if (entries.empty()) return refused("it has no configuration");
  if (entries.size() > TrialLog::kMostTrials)
    return refused(fmt::format("{} configurations, more than {}", entries.size(), TrialLog::kMostTrials));
  std::map<std::string, Trial> trials;
  std::string best, created;
  for (Entry& entry : entries) {
    HEADNORM_TRY(const Schedule schedule, schedule_of_entry(record, entry));
    entry.trial.schedule = to_text(schedule);
    created = std::max(created, iso_time(entry.timestamp));
    const auto [place, is_new] = trials.emplace(entry.trial.schedule, entry.trial);
    if (!is_new) return refused(fmt::format("'{}' is there twice", entry.trial.schedule));
    const bool measured = entry.trial.failure.empty();
    if (measured && (best.empty() || entry.trial.time_us < trials[best].time_us)) best = place->first;
  }
  if (best.empty()) return refused("every configuration failed");
  const auto own = trials.find(to_text(record.schedule));
  const bool stays = own != trials.end() && own->second.failure.empty() && own->second.time_us <= trials[best].time_us &&
                     is_near(own->second.time_us, record.time.median_us);
  if (!stays) {
    HEADNORM_TRY(record.schedule, parse_schedule(best, record.device.target.kind));
    take_result(record, trials[best], created);
  }
  // A lone winner is what a record without trials is written as.
  if (trials.size() == 1) return std::vector<MergeEntry>{{std::move(record), std::nullopt}};
  TrialLog log{record.id, record_digest(record), {}};
  for (auto& [schedule, trial] : trials) log.trials.push_back(std::move(trial));
  return std::vector<MergeEntry>{{std::move(record), std::move(log)}};
}

// ---- Kernel Tuner's cache ------------------------------------------------------------------------------------------------------

constexpr double kUsOfMs = 1e3;

Result<void> read_samples(const FileJson& list, std::vector<double>& samples_us) {
  for (const FileJson& sample : list) {
    if (!sample.is_number() || !std::isfinite(sample.get<double>()) || sample.get<double>() < 0)
      return refused("a time is not a finite number of at least 0");
    if (samples_us.size() < TrialLog::kMostSamples) samples_us.push_back(sample.get<double>() * kUsOfMs);
  }
  return {};
}

std::string failure_of_error(const std::string& error) {
  if (error == "CompilationFailedConfig") return "compile";
  return error == "InvalidConfig" ? "alignment" : "launch";
}

Result<Entry> read_cache_entry(const FileJson& json, const FileJson& names) {
  if (!json.is_object()) return refused("a configuration is not an object");
  Entry entry;
  for (const FileJson& name : names) {
    if (!name.is_string() || json.find(name.get<std::string>()) == json.end())
      return refused(fmt::format("a configuration has no parameter {}", name.dump()));
    entry.configuration[name.get<std::string>()] = text_of(json[name.get<std::string>()]);
  }
  Trial& trial = entry.trial;
  const auto time = json.find("time");
  if (time == json.end() || !(time->is_string() || time->is_number())) return refused("a configuration has no time");
  if (time->is_string() || json.contains("__error__")) {
    trial.failure = failure_of_error(time->is_string() ? time->get<std::string>() : text_of(json["__error__"]));
  } else {
    HEADNORM_TRY(const double ms, number_of(json, "time", 0));
    if (ms <= 0) return refused("the time of a configuration is not above 0");
    trial.time_us = ms * kUsOfMs;
  }
  if (const auto times = json.find("times"); times != json.end() && times->is_array() && trial.failure.empty())
    HEADNORM_CHECK(read_samples(*times, trial.samples_us));
  HEADNORM_TRY(trial.compile_ms, number_of(json, "compile_time", 0));
  HEADNORM_TRY(trial.verify_ms, number_of(json, "verification_time", 0));
  HEADNORM_TRY(trial.measure_ms, number_of(json, "benchmark_time", 0));
  entry.timestamp = json.contains("timestamp") ? text_of(json["timestamp"]) : "";
  return entry;
}

Result<void> check_same_kernel(const FileJson& json, const Record& record) {
  const auto says = [&](const char* name, const FileJson& value) { return json.contains(name) && json[name] == value; };
  if (says("device_name", record.device.name) && says("kernel_name", kernel_name(record.spec)) &&
      says("problem_size", FileJson(problem_size(record))))
    return {};
  return refused("device, kernel or problem size are not those of its sidecar");
}

// ---- T4 ------------------------------------------------------------------------------------------------------------------------

std::string failure_of_invalidity(const std::string& invalidity) {
  if (invalidity == "compile") return "compile";
  if (invalidity == "correctness") return "incorrect";
  return invalidity == "constraints" ? "alignment" : "launch";
}

Result<double> t4_time_ms(const FileJson& result) {
  HEADNORM_TRY(const FileJson measurements, member(result, "measurements", FileJson::value_t::array));
  for (const FileJson& measurement : measurements) {
    if (measurement.is_object() && measurement.contains("name") && measurement["name"] == "time")
      return number_of(measurement, "value", 0);
  }
  return refused("a result has no measurement 'time'");
}

Result<Entry> read_t4_result(const FileJson& json) {
  if (!json.is_object()) return refused("a result is not an object");
  Entry entry;
  HEADNORM_TRY(const FileJson configuration, member(json, "configuration", FileJson::value_t::object));
  for (const auto& item : configuration.items()) entry.configuration[item.key()] = text_of(item.value());
  HEADNORM_TRY(const FileJson times, member(json, "times", FileJson::value_t::object));
  HEADNORM_TRY(const FileJson invalidity, member(json, "invalidity", FileJson::value_t::string));
  Trial& trial = entry.trial;
  if (invalidity != "correct") {
    trial.failure = failure_of_invalidity(invalidity.get<std::string>());
  } else {
    HEADNORM_TRY(const double ms, t4_time_ms(json));
    if (ms <= 0) return refused("the time of a result is not above 0");
    trial.time_us = ms * kUsOfMs;
    if (const auto runtimes = times.find("runtimes"); runtimes != times.end() && runtimes->is_array())
      HEADNORM_CHECK(read_samples(*runtimes, trial.samples_us));
  }
  HEADNORM_TRY(trial.compile_ms, number_of(times, "compilation_time", 0));
  HEADNORM_TRY(trial.verify_ms, number_of(times, "validation", 0));
  HEADNORM_TRY(trial.measure_ms, number_of(times, "benchmark", 0));
  entry.timestamp = json.contains("timestamp") ? text_of(json["timestamp"]) : "";
  return entry;
}

}  // namespace

Result<std::vector<MergeEntry>> entries_from_csv(std::string_view text) {
  HEADNORM_TRY(std::vector<Record> records, records_from_csv(text));
  std::vector<MergeEntry> entries;
  for (Record& record : records) entries.push_back({std::move(record), std::nullopt});
  return entries;
}

Result<std::vector<MergeEntry>> entries_from_kernel_tuner_cache(std::string_view text, std::string_view sidecar) {
  HEADNORM_TRY(Record record, record_of_sidecar(sidecar));
  HEADNORM_TRY(const FileJson json, sealed_json::parse_bounded(text, kMostImportBytes));
  HEADNORM_CHECK(check_same_kernel(json, record));
  HEADNORM_TRY(const FileJson names, member(json, "tune_params_keys", FileJson::value_t::array));
  HEADNORM_TRY(const FileJson cache, member(json, "cache", FileJson::value_t::object));
  std::vector<Entry> entries;
  for (const auto& item : cache.items()) {
    HEADNORM_TRY(Entry entry, read_cache_entry(item.value(), names));
    entries.push_back(std::move(entry));
  }
  return make_entry(std::move(record), std::move(entries));
}

Result<std::vector<MergeEntry>> entries_from_t4(std::string_view text, std::string_view sidecar) {
  HEADNORM_TRY(Record record, record_of_sidecar(sidecar));
  HEADNORM_TRY(const FileJson json, sealed_json::parse_bounded(text, kMostImportBytes));
  HEADNORM_TRY(const FileJson metadata, member(json, "metadata", FileJson::value_t::object));
  if (metadata.contains("timeunit") && metadata["timeunit"] != "milliseconds") return refused("its times are not in milliseconds");
  HEADNORM_TRY(const FileJson results, member(json, "results", FileJson::value_t::array));
  std::vector<Entry> entries;
  for (const FileJson& result : results) {
    HEADNORM_TRY(Entry entry, read_t4_result(result));
    entries.push_back(std::move(entry));
  }
  return make_entry(std::move(record), std::move(entries));
}

}  // namespace headnorm::exports
