// Result files of Kernel Tuner's store_results, which create_device_targets turns into a header: the winners of one kernel.
#include "generator/export/format.h"

namespace headnorm::exports {
namespace {

// As its writer and reader spell a device: each run of other characters is one '_'.
std::string device_word(const std::string& name) {
  std::string word;
  for (const char c : sanitised(name, "")) {
    if (c != '_' || word.empty() || word.back() != '_') word += c;
  }
  return word;
}

File render_kernel(const std::vector<Row>& rows) {
  const Fields fields = fields_of(rows);
  Json names = Json::array(), data = Json::array();
  for (const Fields::Field& field : fields.list()) names.push_back(field.name);
  for (const Row& row : rows) {
    Json parameters = Json::object();
    const std::vector<Value> values = fields.values(to_text(row.record.schedule));
    for (std::size_t i = 0; i < values.size(); ++i) parameters[fields.list()[i].name] = value_json(values[i]);
    data.push_back({{"device_name", device_word(row.record.device.name)},
                    {"problem_size", problem_text(row.record)},
                    {"tunable_parameters", parameters},
                    {"time", milliseconds(row.record.time.median_us)}});
  }
  const std::string kernel = kernel_name(rows.front().record.spec);
  const Json document = {{"version_number", "1.0"},     {"kernel_name", kernel},
                         {"objective", "time"},         {"objective_higher_is_better", false},
                         {"tunable_parameters", names}, {"data", data}};
  return {kernel + ".results.json", dump(document, 1) + "\n"};
}

}  // namespace

Result<std::vector<File>> render_kernel_tuner_results(const std::vector<Row>& rows, const std::string& tool) {
  std::vector<File> files;
  for (const std::vector<Row>& kernel : grouped(rows, [](const Record& record) { return to_text(record.spec); })) {
    files.push_back(render_kernel(kernel));
    files.push_back(sidecar(files.back().name, "kernel-tuner-results", tool, kernel));
  }
  return files;
}

}  // namespace headnorm::exports
