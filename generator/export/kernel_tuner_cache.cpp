// Cache files of Kernel Tuner: every configuration that the search tried, failed ones included. One file for each record.
#include <fmt/format.h>

#include <set>

#include "generator/export/format.h"
#include "generator/export/outcome.h"

namespace headnorm::exports {
namespace {

Json entry_json(const Fields& fields, const std::vector<Value>& values, const Trial& trial, const std::string& time) {
  Json json = Json::object();
  for (std::size_t i = 0; i < values.size(); ++i) json[fields.list()[i].name] = value_json(values[i]);
  const std::string error = kernel_tuner_error(trial);
  if (error.empty()) {
    json["time"] = milliseconds(trial.time_us);
    // A failed configuration has no times at all: readers take their number from the first entry that has some.
    json["times"] = Json::array();
    for (const double sample : trial.samples_us) json["times"].push_back(milliseconds(sample));
    if (trial.samples_us.empty()) json["times"].push_back(milliseconds(trial.time_us));
  } else {
    json["time"] = error;
  }
  json["compile_time"] = trial.compile_ms;
  json["verification_time"] = trial.verify_ms;
  json["benchmark_time"] = trial.measure_ms;
  json["strategy_time"] = 0.0;
  json["framework_time"] = 0.0;
  json["timestamp"] = time;
  if (!error.empty()) json["__error__"] = error;
  return json;
}

// Each field with the values that it takes in the file, ascending.
Json parameters_json(const Fields& fields, const std::vector<std::vector<Value>>& configurations) {
  Json json = Json::object();
  for (std::size_t i = 0; i < fields.list().size(); ++i) {
    std::set<Value> values;
    for (const std::vector<Value>& configuration : configurations) values.insert(configuration[i]);
    json[fields.list()[i].name] = Json::array();
    for (const Value& value : values) json[fields.list()[i].name].push_back(value_json(value));
  }
  return json;
}

std::string key_of(const std::vector<Value>& values) {
  std::string key;
  for (const Value& value : values) key += (key.empty() ? "" : ",") + value_text(value);
  return key;
}

File render_row(const Row& row) {
  const Fields fields = fields_of(row);
  const std::vector<Trial> trials = trials_of(row);
  std::vector<std::vector<Value>> configurations;
  for (const Trial& trial : trials) configurations.push_back(fields.values(trial.schedule));
  Json names = Json::array();
  for (const Fields::Field& field : fields.list()) names.push_back(field.name);
  std::string text = fmt::format(
      "{{\"device_name\": {},\n\"kernel_name\": {},\n\"problem_size\": {},\n\"tune_params_keys\": {},\n\"tune_params\": {},\n"
      "\"objective\": \"time\",\n\"cache\": {{",
      dump(row.record.device.name), dump(kernel_name(row.record.spec)), dump(Json(problem_size(row.record))), dump(names),
      dump(parameters_json(fields, configurations)));
  const std::string time = spaced_time(row.record.created) + "+00:00";
  for (std::size_t i = 0; i < trials.size(); ++i)
    text += fmt::format("{}\n{}: {}", i == 0 ? "" : ",", dump(key_of(configurations[i])),
                        dump(entry_json(fields, configurations[i], trials[i], time)));
  // Its reader looks at the last three characters to see whether a file was closed.
  text += "\n}\n}";
  const std::string name = fmt::format("{}.{}.{}.cache.json", kernel_name(row.record.spec), device_file_name(row.record.device),
                                       problem_text(row.record));
  return {name, text};
}

}  // namespace

Result<std::vector<File>> render_kernel_tuner_cache(const std::vector<Row>& rows, const std::string& tool) {
  std::vector<File> files;
  for (const Row& row : rows) {
    files.push_back(render_row(row));
    files.push_back(sidecar(files.back().name, "kernel-tuner-cache", tool, {row}));
  }
  return files;
}

}  // namespace headnorm::exports
