#include "cli/device_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/files.h"
#include "cli/suggest.h"

namespace headnorm::cli {
namespace {

constexpr std::string_view kPrefix = "model:";
constexpr std::string_view kFileEnding = ".json";

std::string source_of(const GpuModel& model, Figure figure) {
  const FigureValue& value = model.at(figure);
  return fmt::format("{} ({})", value.source, to_text(value.confidence));
}

}  // namespace

RooflineDevice roofline_of(const GpuModel& model) {
  return {.name = model.slug,
          .title = model.title,
          .gb_per_s = model[Figure::gb_per_s],
          .f32_gflop_per_s = model[Figure::f32_tflop_per_s] * 1e3,
          .source = fmt::format("memory: {}; arithmetic: {}", source_of(model, Figure::gb_per_s),
                                source_of(model, Figure::f32_tflop_per_s))};
}

const std::vector<RooflineDevice>& device_models() {
  static const std::vector<RooflineDevice> list = [] {
    std::vector<RooflineDevice> devices;
    for (const GpuModel& model : gpu_models()) devices.push_back(roofline_of(model));
    return devices;
  }();
  return list;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const GpuModel& model : gpu_models()) names.push_back(std::string(kPrefix) + model.slug);
  return names;
}

bool is_model_device(const std::string& device) { return device.starts_with(kPrefix); }

Result<GpuModel> parse_model_device(const std::string& device) {
  const std::string name = is_model_device(device) ? device.substr(kPrefix.size()) : "";
  if (name.ends_with(kFileEnding)) {
    HEADNORM_TRY(const std::string text, read_file(name));
    return gpu_model_from_json(text);
  }
  if (const GpuModel* model = find_gpu_model(name)) return *model;
  const std::vector<std::string> names = model_names();
  return user_error(fmt::format("there is no model of device '{}'", device),
                    suggestion(device, names) + fmt::format("use {} or model:FILE.json", fmt::join(names, ", ")));
}

}  // namespace headnorm::cli
