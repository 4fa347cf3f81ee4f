// Prediction report: what the cost model makes of a launch, as JSON and as text.
#pragma once

#include "cli/report.h"
#include "tuner/cost_model/prediction.h"

namespace headnorm::cli {

Json prediction_json(const Prediction& prediction, const GpuModel& model);
std::string prediction_text(const Json& prediction);

}  // namespace headnorm::cli
