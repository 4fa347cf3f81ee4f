// Prediction: the time of a launch on a modelled GPU, and what it is made of. Never a measurement.
#pragma once

#include <cstdint>

#include "tuner/cost_model/occupancy.h"
#include "tuner/cost_model/tile_counts.h"

namespace headnorm {

enum class Bound : std::uint8_t {
  launch,   // the launch itself takes longest
  memory,   // bytes at the memory's rate
  cache,    // bytes at the rate of the L2 cache, or of the busiest multiprocessor's way to it
  issue,    // instructions of the busiest multiprocessor
  latency,  // too few bytes under way: blocks wait for what they asked for
};
const char* to_text(Bound bound);

struct Prediction {
  double time_us = 0;
  Bound bound = Bound::memory;
  // Each as if it were alone; docs/cost-model.md says how they come together.
  double launch_us = 0, memory_us = 0, cache_us = 0, issue_us = 0, latency_us = 0;
  double tile_us = 0;  // of one tile from its first load to its last store

  Occupancy occupancy;
  LaunchCounts counts;
  double memory_bytes = 0, cache_bytes = 0;  // that are moved from and to each
  double waves = 0;                          // blocks over those that run at a time
  double in_flight_bytes = 0;                // that a multiprocessor has asked for while its blocks load
  double needed_bytes = 0;                   // Little's law: so many keep the memory busy
};

// `counts` of count_tile(plan); `registers` as for occupancy_of. `rows` is at least 1. A time of infinity: not one block fits.
Prediction predict(const Plan& plan, const TileCounts& counts, std::int64_t rows, const GpuModel& model,
                   std::optional<int> registers = std::nullopt);

// The blocks that the launch has: one a tile and block of its cluster, or of a persistent grid as many as the device holds.
std::int64_t launched_blocks(const Plan& plan, std::int64_t rows, const Occupancy& occupancy, const GpuModel& model);

}  // namespace headnorm
