// T4 results (the open autotuning schema, 1.0.0) in two dialects: Kernel Tuner's has all times of a configuration, KTT's has its
// metadata, its kinds of failure, and one runtime each. Both have a word in place of the time of a failed configuration.
#include <fmt/format.h>

#include "generator/export/format.h"
#include "generator/export/outcome.h"

namespace headnorm::exports {
namespace {

enum class Dialect { kernel_tuner, ktt };

Json configuration_json(const Fields& fields, const std::string& schedule) {
  const std::vector<Value> values = fields.values(schedule);
  Json json = Json::object();
  for (std::size_t i = 0; i < values.size(); ++i) json[fields.list()[i].name] = value_json(values[i]);
  return json;
}

Json runtimes_json(const Trial& trial, Dialect dialect) {
  Json runtimes = Json::array();
  // KTT takes the first for the time, and needs one.
  if (dialect == Dialect::ktt || (trial.failure.empty() && trial.samples_us.empty())) {
    runtimes.push_back(milliseconds(trial.time_us));
    return runtimes;
  }
  for (const double sample : trial.samples_us) runtimes.push_back(milliseconds(sample));
  return runtimes;
}

Json times_json(const Trial& trial, Dialect dialect) {
  Json json = {
      {"compilation_time", trial.compile_ms}, {"framework", 0.0}, {"search_algorithm", 0.0}, {"validation", trial.verify_ms}};
  json["runtimes"] = runtimes_json(trial, dialect);
  if (dialect == Dialect::ktt) return json;
  json["compilation"] = trial.compile_ms;
  json["benchmark"] = trial.measure_ms;
  return json;
}

Json result_json(const Fields& fields, const Row& row, const Trial& trial, Dialect dialect) {
  const std::string error = kernel_tuner_error(trial), time = spaced_time(row.record.created);
  const bool ktt = dialect == Dialect::ktt;
  const Json value = error.empty() ? Json(milliseconds(trial.time_us)) : Json(error);
  return {{"timestamp", ktt ? time : time + "+00:00"},
          {"configuration", configuration_json(fields, trial.schedule)},
          {"times", times_json(trial, dialect)},
          {"invalidity", ktt && t4_invalidity(trial) == "constraints" ? "compile" : t4_invalidity(trial)},
          {"correctness", error.empty() ? 1.0 : 0.0},
          {"measurements", Json::array({{{"name", "time"}, {"value", value}, {"unit", ktt ? "milliseconds" : "ms"}}})},
          {"objectives", Json::array({"time"})}};
}

Json metadata_json(const Row& row, const std::string& tool, Dialect dialect) {
  if (dialect == Dialect::kernel_tuner) return {{"timeunit", "milliseconds"}};
  const std::size_t blank = tool.find(' ');
  return {{"autotuner", tool.substr(0, blank)},
          {"autotuner_version", blank == std::string::npos ? "" : tool.substr(blank + 1)},
          {"compute_api", "CUDA"},
          {"platform", "NVIDIA CUDA"},
          {"device", row.record.device.name},
          {"timestamp", spaced_time(row.record.created)},
          {"timeunit", "milliseconds"}};
}

// The second file of the schema, and our records.
File metadata_file(const std::string& name, const std::string& format, const Row& row, const std::string& tool) {
  const DeviceInfo& device = row.record.device;
  Json meta = {{"schema_version", "1.0.0"},
               {"metadata",
                {{"hardware",
                  {{"hardware_description", Json::array({{{"device", device.name},
                                                          {"kind", device.kind},
                                                          {"target", to_text(device.target)},
                                                          {"units", device.units},
                                                          {"memory_bytes", device.memory_bytes}}})},
                   {"operating_system", "Linux"}}},
                 {"environment", {{"device_query", {{"driver", device.driver}}}, {"requirements", Json::array({tool})}}}}}};
  const File plain = sidecar(name, format, tool, {row});
  meta.update(Json::parse(plain.bytes));
  return {plain.name, dump(meta, 2) + "\n"};
}

std::vector<File> render_row(const Row& row, const std::string& tool, Dialect dialect) {
  const Fields fields = fields_of(row);
  std::string results;
  for (const Trial& trial : trials_of(row))
    results += fmt::format("{}\n  {}", results.empty() ? "" : ",", dump(result_json(fields, row, trial, dialect)));
  const bool ktt = dialect == Dialect::ktt;
  const std::string name = fmt::format("{}.{}.{}.{}_T4.json", kernel_name(row.record.spec), device_file_name(row.record.device),
                                       problem_text(row.record), ktt ? "ktt" : "kernel_tuner");
  const std::string text = fmt::format("{{\"schema_version\": \"1.0.0\",\n \"metadata\": {},\n \"results\": [{}\n ]}}\n",
                                       dump(metadata_json(row, tool, dialect)), results);
  return {{name, text}, metadata_file(name, ktt ? "t4-ktt" : "t4", row, tool)};
}

std::vector<File> render(const std::vector<Row>& rows, const std::string& tool, Dialect dialect) {
  std::vector<File> files;
  for (const Row& row : rows) {
    for (File& file : render_row(row, tool, dialect)) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

Result<std::vector<File>> render_t4(const std::vector<Row>& rows, const std::string& tool) {
  return render(rows, tool, Dialect::kernel_tuner);
}

Result<std::vector<File>> render_t4_ktt(const std::vector<Row>& rows, const std::string& tool) {
  return render(rows, tool, Dialect::ktt);
}

}  // namespace headnorm::exports
