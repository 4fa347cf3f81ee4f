// Device models: what --device model:NAME names, and the peak rates of the models.
#pragma once

#include <string>
#include <vector>

#include "tuner/cost_model/gpu_model.h"

namespace headnorm::cli {

struct RooflineDevice {
  std::string name, title;
  double gb_per_s = 0;         // of its memory
  double f32_gflop_per_s = 0;  // 0: not known, and not counted
  std::string source;          // of both numbers, in words
};
RooflineDevice roofline_of(const GpuModel& model);

// Those compiled in.
const std::vector<RooflineDevice>& device_models();

std::vector<std::string> model_names();  // "model:h200", of those compiled in

bool is_model_device(const std::string& device);  // "model:..."

// "model:h200", or "model:FILE.json" of a file that calibrate wrote. Errors: no such model, or not one (user); the file cannot be
// read (environment).
Result<GpuModel> parse_model_device(const std::string& device);

}  // namespace headnorm::cli
