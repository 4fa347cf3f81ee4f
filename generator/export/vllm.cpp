// Configurations in the style of vLLM's tuned files: a file for each kernel and device, in it a configuration for each row count.
#include <fmt/format.h>

#include "generator/export/format.h"

namespace headnorm::exports {
namespace {

bool is_h200(const std::string& name) { return name.starts_with("NVIDIA H200"); }

// As vLLM spells a device: runs of blanks and slashes are one '_', and all kinds of H200 are one.
std::string device_word(const std::string& name) {
  if (is_h200(name)) return "NVIDIA_H200";
  std::string word;
  for (const char c : name) {
    const bool blank = c == ' ' || c == '/' || (c >= '\t' && c <= '\r');
    if (!blank) word += c;
    if (blank && (word.empty() || word.back() != '_')) word += '_';
  }
  return sanitised(word, "()+-.@");
}

File render_kernel(const std::vector<Row>& rows) {
  const Record& first = rows.front().record;
  const Fields fields = fields_of(rows);
  std::string text;
  for (const Row& row : rows) {  // ascending: of two row counts that are equally near, its reader takes the one before
    Json config = Json::object();
    const std::vector<Value> values = fields.values(to_text(row.record.schedule));
    for (std::size_t i = 0; i < values.size(); ++i) config[fields.list()[i].name] = value_json(values[i]);
    text += fmt::format("{}\n    \"{}\": {}", text.empty() ? "" : ",", row.record.rows, dump(config));
  }
  const std::string name =
      fmt::format("op={},H={},D={},device_name={},dtype={}.json", operation_name(first.spec), first.spec.heads(),
                  first.spec.head_size, device_word(first.device.name), framework_dtype(first.spec.x_dtype));
  return {name, fmt::format("{{{}\n}}\n", text)};
}

}  // namespace

Result<std::vector<File>> render_vllm(const std::vector<Row>& rows, const std::string& tool) {
  const auto key = [](const Record& record) {
    return to_text(record.spec) + record.device.kind + record.device.name + to_text(record.device.target) +
           std::to_string(record.device.units);
  };
  std::vector<File> files;
  for (const std::vector<Row>& kernel : grouped(rows, key)) {
    files.push_back(render_kernel(kernel));
    files.push_back(sidecar(files.back().name, "vllm", tool, kernel));
  }
  return files;
}

}  // namespace headnorm::exports
