// Wisdom files of Kernel Launcher, version 1.0: JSON lines, a header and then a row for each device and problem size.
#include <fmt/format.h>

#include "generator/export/format.h"

namespace headnorm::exports {
namespace {

Json environment_json(const Record& record, const std::string& tool) {
  Json json = {{"device_name", record.device.name},
               {"compute_capability", record.device.target.sm},
               {"date", spaced_time(record.created) + "+00:00"},
               {"kernel_name", kernel_name(record.spec)},
               {"headnorm_tool", tool},
               {"headnorm_record", record.id},
               {"headnorm_spec", to_text(record.spec)},
               {"headnorm_schedule", to_text(record.schedule)},
               {"headnorm_target", to_text(record.device.target)},
               {"headnorm_multiprocessors", record.device.units},
               {"headnorm_evidence", to_text(record.evidence)},
               {"headnorm_policy", to_text(record.policy)}};
  if (!record.device.driver.empty()) json["cuda_driver_version"] = record.device.driver;
  return json;
}

File render_kernel(const std::vector<Row>& rows, const std::string& tool) {
  const Fields fields = fields_of(rows);
  const std::string key = kernel_name(rows.front().record.spec);
  Json names = Json::array();
  for (const Fields::Field& field : fields.list()) names.push_back(field.name);
  std::string text = dump({{"version", "1.0"}, {"objective", "time"}, {"tunable_parameters", names}, {"key", key}}) + "\n";
  for (const Row& row : rows) {
    Json config = Json::array();
    for (const Value& value : fields.values(to_text(row.record.schedule))) config.push_back(value_json(value));
    text += dump({{"config", config},
                  {"problem_size", problem_size(row.record)},
                  {"time", milliseconds(row.record.time.median_us)},
                  {"environment", environment_json(row.record, tool)}}) +
            "\n";
  }
  return {sanitised(key, "_.-") + ".wisdom", text};
}

}  // namespace

Result<std::vector<File>> render_wisdom(const std::vector<Row>& rows, const std::string& tool) {
  std::vector<File> files;
  for (const std::vector<Row>& kernel : grouped(rows, [](const Record& record) { return to_text(record.spec); }))
    files.push_back(render_kernel(kernel, tool));
  return files;
}

}  // namespace headnorm::exports
