#include "tuner/cost_model/gpu_model.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "tuner/cost_model/gpu_model_texts.h"

namespace headnorm {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRemedy = "take a file that `headnorm calibrate` wrote, or copy one of tuner/cost_model/devices";

Error refused(const std::string& what) { return user_error("not a GPU model: " + what, kRemedy); }

Result<std::string> read_text(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string() || found->get<std::string>().empty())
    return refused(fmt::format("'{}' is missing or not a text", key));
  return found->get<std::string>();
}

std::optional<Confidence> parse_confidence(std::string_view text) {
  for (Confidence value : {Confidence::read, Confidence::memory, Confidence::assumed, Confidence::calibrated}) {
    if (text == to_text(value)) return value;
  }
  return std::nullopt;
}

Result<FigureValue> read_figure(const Json& figures, const char* name) {
  const auto found = figures.find(name);
  if (found == figures.end() || !found->is_object()) return refused(fmt::format("figure '{}' is missing", name));
  FigureValue figure;
  const auto value = found->find("value");
  if (value == found->end() || !value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0)
    return refused(fmt::format("figure '{}' has no value above 0", name));
  figure.value = value->get<double>();
  HEADNORM_TRY(figure.source, read_text(*found, "source"));
  HEADNORM_TRY(const std::string confidence, read_text(*found, "confidence"));
  const std::optional<Confidence> known = parse_confidence(confidence);
  if (!known) return refused(fmt::format("figure '{}' has confidence '{}'", name, confidence));
  figure.confidence = *known;
  return figure;
}

// The texts are part of the program and a test reads all of them, so that a fault in one is a defect found before any user sees it.
std::vector<GpuModel> read_models() {
  std::vector<GpuModel> models;
  for (const char* const text : kGpuModelTexts) {
    Result<GpuModel> model = gpu_model_from_json(text);
    if (model.ok()) models.push_back(*std::move(model));
  }
  return models;
}

}  // namespace

const char* to_text(Figure figure) {
  constexpr const char* kNames[kFigureCount] = {"multiprocessors",
                                                "clock_ghz",
                                                "gb_per_s",
                                                "f32_tflop_per_s",
                                                "memory_bytes",
                                                "l2_bytes",
                                                "l2_gb_per_s",
                                                "memory_efficiency",
                                                "memory_latency_ns",
                                                "l2_latency_ns",
                                                "launch_us",
                                                "threads_per_multiprocessor",
                                                "blocks_per_multiprocessor",
                                                "registers_per_multiprocessor",
                                                "shared_bytes_per_multiprocessor",
                                                "shared_bytes_reserved_per_block",
                                                "issue_per_cycle",
                                                "shuffle_cycles",
                                                "barrier_cycles",
                                                "shared_cycles"};
  return kNames[static_cast<int>(figure)];
}

const char* to_text(Confidence confidence) {
  constexpr const char* kNames[] = {"read in a published source", "from memory", "assumed", "calibrated"};
  return kNames[static_cast<int>(confidence)];
}

const std::vector<GpuModel>& gpu_models() {
  static const std::vector<GpuModel> models = read_models();
  return models;
}

const GpuModel* find_gpu_model(std::string_view slug) {
  for (const GpuModel& model : gpu_models()) {
    if (model.slug == slug) return &model;
  }
  return nullptr;
}

std::string to_json(const GpuModel& model) {
  Json figures = Json::object();
  for (int i = 0; i < kFigureCount; ++i) {
    const FigureValue& figure = model.figures[static_cast<std::size_t>(i)];
    figures[to_text(static_cast<Figure>(i))] = {
        {"value", figure.value}, {"confidence", to_text(figure.confidence)}, {"source", figure.source}};
  }
  const Json json = {
      {"slug", model.slug}, {"title", model.title}, {"name", model.name}, {"target", to_text(model.target)}, {"figures", figures}};
  return json.dump(2) + "\n";
}

Result<GpuModel> gpu_model_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return refused("not a JSON object");
  GpuModel model;
  HEADNORM_TRY(model.slug, read_text(json, "slug"));
  HEADNORM_TRY(model.title, read_text(json, "title"));
  HEADNORM_TRY(model.name, read_text(json, "name"));
  HEADNORM_TRY(const std::string target, read_text(json, "target"));
  HEADNORM_TRY(model.target, parse_target(target));
  if (model.target.kind != TargetKind::gpu) return refused(fmt::format("target '{}' is not that of a GPU", target));
  const auto figures = json.find("figures");
  if (figures == json.end() || !figures->is_object()) return refused("'figures' is missing");
  for (int i = 0; i < kFigureCount; ++i) {
    HEADNORM_TRY(model.figures[static_cast<std::size_t>(i)], read_figure(*figures, to_text(static_cast<Figure>(i))));
  }
  if (figures->size() != kFigureCount) return refused("a figure that is not known");
  return model;
}

DeviceInfo device_info(const GpuModel& model) {
  DeviceInfo info;
  info.kind = "cuda";
  info.id = "model:" + model.slug;
  info.name = model.name;
  info.target = model.target;
  info.units = static_cast<int>(model[Figure::multiprocessors]);
  info.memory_bytes = static_cast<std::int64_t>(model[Figure::memory_bytes]);
  info.cache_bytes = static_cast<std::int64_t>(model[Figure::l2_bytes]);
  return info;
}

}  // namespace headnorm
