// Occupancy: how many blocks of a plan a multiprocessor holds at a time, and what stops it from holding more.
#pragma once

#include <optional>
#include <string>

#include "core/plan.h"
#include "tuner/cost_model/gpu_model.h"

namespace headnorm {

enum class RegisterSource : std::uint8_t {
  estimate,   // the plan's, see docs/schedules.md
  assembler,  // what ptxas reports for the compiled kernel
};
const char* to_text(RegisterSource source);

enum class OccupancyLimit : std::uint8_t { threads, blocks, registers, shared_memory };
const char* to_text(OccupancyLimit limit);

struct Occupancy {
  int blocks = 0;  // of a multiprocessor; 0: the kernel does not run there
  int threads = 0;
  double share = 0;  // of the threads that there is room for
  OccupancyLimit limit = OccupancyLimit::threads;
  int registers = 0;  // of a thread
  RegisterSource source = RegisterSource::estimate;
};

// `registers` of a thread as the assembler gives them; none: the plan's estimate.
Occupancy occupancy_of(const Plan& plan, const GpuModel& model, std::optional<int> registers = std::nullopt);

}  // namespace headnorm
