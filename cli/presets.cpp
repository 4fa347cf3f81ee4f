#include "cli/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/suggest.h"

namespace headnorm::cli {
namespace {

// The data is part of the program and a test reads all of it, so that a fault in it is a defect found before any user sees it.
Preset read_preset(const nlohmann::json& json) {
  Preset preset;
  preset.name = json.at("name");
  preset.aliases = json.value("aliases", std::vector<std::string>{});
  preset.width = json.at("width");
  preset.head_size = json.at("head_size");
  preset.depth = json.at("depth");
  preset.tokens = json.at("tokens");
  preset.rows = json.at("rows");
  preset.dtype = parse_dtype(json.at("dtype").get<std::string>()).value();
  preset.eps = json.at("eps");
  preset.weight_offset = json.value("weight_offset", 0.0);
  preset.weight = parse_weight_form(json.value("weight", std::string("channel"))).value();
  preset.stat = json.value("stat", std::string("rms"));
  preset.attention_heads = json.value("attention_heads", std::string());
  preset.source = json.at("source").get<std::string>() + "; " + json.at("confidence").get<std::string>();
  preset.note = json.value("note", std::string());
  return preset;
}

std::vector<Preset> read_presets() {
  std::vector<Preset> list;
  for (const nlohmann::json& json : nlohmann::json::parse(kPresetsJson)) list.push_back(read_preset(json));
  return list;
}

// Presets of stat rms whose names begin as that of `preset`: for a row of an ablation the other rows.
std::vector<std::string> relatives(const Preset& preset) {
  const std::string family = preset.name.substr(0, preset.name.find('-') + 1);
  std::vector<std::string> names;
  for (const Preset& other : presets()) {
    if (other.stat == "rms" && other.name.starts_with(family)) names.push_back(other.name);
  }
  return names;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = read_presets();
  return list;
}

Result<const Preset*> find_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name || std::ranges::find(preset.aliases, name) != preset.aliases.end()) return &preset;
    names.push_back(preset.name);
    names.insert(names.end(), preset.aliases.begin(), preset.aliases.end());
  }
  return user_error(fmt::format("'{}' is not a preset", name), suggestion(name, names) + "'headnorm presets' lists them all");
}

Result<KernelSpec> preset_spec(const Preset& preset) {
  if (preset.stat != "rms")
    return user_error(fmt::format("preset '{}' needs stat {}, which this version does not do", preset.name, preset.stat),
                      fmt::format("there are {}", fmt::join(relatives(preset), ", ")));
  KernelSpec spec;
  spec.width = preset.width;
  spec.head_size = preset.head_size;
  spec.x_dtype = spec.residual_dtype = spec.weight_dtype = spec.y_dtype = preset.dtype;
  spec.eps = preset.eps;
  spec.weight_offset = preset.weight_offset;
  spec.weight = preset.weight;
  return spec;
}

}  // namespace headnorm::cli
