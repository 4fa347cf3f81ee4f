// Device models: the peak rates of devices as their maker publishes them, compiled into the command from device_models.json.
#pragma once

#include <string>
#include <vector>

namespace headnorm::cli {

struct RooflineDevice {
  std::string name, title;
  double gb_per_s = 0;         // of its memory
  double f32_gflop_per_s = 0;  // 0: not known, and not counted
  std::string source;          // of both numbers, in words
};

// The text of device_models.json.
extern const char* const kDeviceModelsJson;

const std::vector<RooflineDevice>& device_models();

}  // namespace headnorm::cli
