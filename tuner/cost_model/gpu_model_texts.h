// The JSON texts of tuner/cost_model/devices, compiled in.
#pragma once

#include <span>

namespace headnorm {

extern const std::span<const char* const> kGpuModelTexts;

}  // namespace headnorm
