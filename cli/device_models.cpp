#include "cli/device_models.h"

#include <nlohmann/json.hpp>

namespace headnorm::cli {
namespace {

// The data is part of the program and a test reads all of it, so that a fault in it is a defect found before any user sees it.
std::vector<RooflineDevice> read_models() {
  std::vector<RooflineDevice> list;
  for (const nlohmann::json& json : nlohmann::json::parse(kDeviceModelsJson))
    list.push_back({.name = json.at("name"),
                    .title = json.at("title"),
                    .gb_per_s = json.at("gb_per_s"),
                    .f32_gflop_per_s = json.at("f32_tflop_per_s").get<double>() * 1e3,
                    .source = json.at("source")});
  return list;
}

}  // namespace

const std::vector<RooflineDevice>& device_models() {
  static const std::vector<RooflineDevice> list = read_models();
  return list;
}

}  // namespace headnorm::cli
