// Table maker: makes the shipped tables.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/result.h"
#include "core/target.h"
#include "tuner/cost_model/gpu_model.h"
#include "tuning_db/maker/shipped_shapes.h"

namespace headnorm::tables {

using Progress = std::function<void(const std::string&)>;  // may be empty

// By the cost model, with estimated registers and without a time of making: the same shapes give the same bytes everywhere.
Result<std::string> make_predicted_table(const GpuModel& model, std::span<const ShippedShape> shapes,
                                         const Progress& progress = {});

struct MeasuredTableOptions {
  int threads = 1;
  double budget_s = 2;        // of each shape and row count
  std::string circumstances;  // of the machine, in words, for the record
};

// Measured on this machine, restricted to the instructions of `isa`. Error (environment): it does not have them.
Result<std::string> make_measured_table(HostIsa isa, std::span<const ShippedShape> shapes, const MeasuredTableOptions& options,
                                        const Progress& progress = {});

// Eight digits that change when a predicted search has other plans to choose from, predicts other times or chooses otherwise, as
// far as a sample of specs and plans shows it: tables that were made before may then be stale. They are part of the provenance of
// predicted tables.
std::string search_digest(const GpuModel& model);

// "sm_90.h200.json", "x86-64-v4.intel-r-xeon-r-processor.json".
std::string table_file_name(const Target& target, const std::string& device);

}  // namespace headnorm::tables
