// Model tuning: tune's search by a cost model in place of a device.
#pragma once

#include <functional>
#include <optional>

#include "cli/assembler.h"
#include "runtime/database/database.h"
#include "tuner/cost_model/gpu_model.h"
#include "tuner/tuner.h"

namespace headnorm::cli {

struct ModelTuning {
  const TuneRequest& request;
  const GpuModel& model;
  Database& database;
  std::optional<Assembler> assembler;  // gives the registers of the best candidates; none: the plans' estimates
  std::function<bool()> stop_requested;
  std::function<void(const std::string&)> warn;
};

// Publishes predicted records. A row count whose measured record is there is answered with it, and none gives way to a prediction.
Result<TuneReport> tune_by_model(const ModelTuning& tuning);

}  // namespace headnorm::cli
