#include "tuner/cost_model/prediction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headnorm {
namespace {

constexpr double kL2Share = 0.5;  // of the L2 cache, that rows which are read again may count on
constexpr double kL1Bytes =
    65536;                        // of weights, that the first level cache of a multiprocessor can keep beside what streams through
constexpr double kL1Hits = 0.75;  // of the reads of weights that fit
constexpr double kCacheBytesPerCycle = 64;  // from L2 to one multiprocessor, at best
constexpr double kArithmeticCycles = 4;     // until the next instruction may use a result
constexpr double kSerialShare = 0.25;       // of a warp's instructions, that wait for the one before
constexpr double kBlockStartCycles = 250;   // until a new block's first instruction, where another one's place has become free
constexpr double kClusterCycles = 400;      // of a barrier of a cluster and a look into another block's shared memory
constexpr double kDrainShare = 0.5;         // of a tile: what the last blocks take longer than the average

double microseconds(double cycles, const GpuModel& model) { return cycles / model[Figure::clock_ghz] / 1e3; }
double transfer_us(double bytes, double gb_per_s) { return bytes / gb_per_s / 1e3; }

// Of several limits that overlap in part: near the largest, above it where others are close. The fourth root of the sum of fourth
// powers, by square roots, which are the same on every machine.
double combine(std::initializer_list<double> values) {
  double sum = 0;
  for (double value : values) sum += value * value * value * value;
  return std::sqrt(std::sqrt(sum));
}

// Bytes that cross from the L2 cache, or miss it, when rows are read again.
double reread_bytes(const Plan& plan, std::int64_t rows) {
  if (plan.gpu_schedule().residency != Residency::reload) return 0;
  return static_cast<double>(rows) * static_cast<double>(minimum_traffic(plan.spec).read_bytes_per_row);
}

double block_start_cycles(const TileCounts& counts) {
  return kBlockStartCycles + kSerialShare * counts.block.total() * kArithmeticCycles;
}

double tile_us(const Plan& plan, const TileCounts& counts, const GpuModel& model) {
  const Waits& waits = counts.waits;
  double cycles = waits.shuffles * model[Figure::shuffle_cycles] + waits.barriers * model[Figure::barrier_cycles] +
                  waits.cluster_barriers * kClusterCycles + waits.shared_rounds * model[Figure::shared_cycles] +
                  waits.scalar_steps * kArithmeticCycles + kSerialShare * counts.tile.total() * kArithmeticCycles;
  if (plan.gpu_schedule().grid == GridForm::once) cycles += block_start_cycles(counts);
  const double work = microseconds(cycles, model) + waits.cache_batches * model[Figure::l2_latency_ns] / 1e3;
  const double load = waits.memory_batches * model[Figure::memory_latency_ns] / 1e3;
  // With stages, the loads of the tiles to come are under way during the work on this one.
  const int ahead = plan.gpu_schedule().grid == GridForm::persistent ? std::max(1, plan.gpu().stages) : 1;
  return std::max(work, (load + work) / ahead);
}

// Tiles that the busiest of `places` has to do.
double most_tiles(double tiles, double places) { return std::ceil(tiles / places); }

// What of the moved bytes the first level caches keep from the L2 cache.
double kept_in_l1(const Plan& plan, const TileCounts& counts, const LaunchCounts& launch) {
  if (static_cast<double>(minimum_traffic(plan.spec).weight_bytes) > kL1Bytes) return 0;
  return kL1Hits * static_cast<double>(launch.tiles * counts.tile_sectors.weights_read * kSectorBytes);
}

void predict_bytes(const Plan& plan, const TileCounts& counts, std::int64_t rows, const GpuModel& model, Prediction& p) {
  const double reread = reread_bytes(plan, rows);
  const double resident_tiles = std::min(static_cast<double>(p.counts.blocks), p.occupancy.blocks * model[Figure::multiprocessors]);
  const double between =
      resident_tiles * static_cast<double>(plan.gpu().groups_per_block() * plan.group_elements()) * size_bytes(plan.spec.x_dtype);
  const double kept = std::min(1.0, kL2Share * model[Figure::l2_bytes] / std::max(between, 1.0));
  p.memory_bytes = static_cast<double>(p.counts.footprint_bytes) + reread * (1 - kept);
  p.cache_bytes = static_cast<double>(p.counts.moved_bytes) - kept_in_l1(plan, counts, p.counts);
  p.memory_us = transfer_us(p.memory_bytes, model[Figure::gb_per_s] * model[Figure::memory_efficiency]);
}

// The busiest multiprocessor: its part of the launch is a whole number of blocks.
void predict_busiest(const GpuModel& model, Prediction& p) {
  const double units = model[Figure::multiprocessors];
  const double share = most_tiles(static_cast<double>(p.counts.blocks), units) / static_cast<double>(p.counts.blocks);
  p.cache_us = std::max(transfer_us(p.cache_bytes, model[Figure::l2_gb_per_s]),
                        microseconds(share * p.cache_bytes / kCacheBytesPerCycle, model));
  p.issue_us = microseconds(share * p.counts.warp_instructions / model[Figure::issue_per_cycle], model);
}

void predict_latency(const Plan& plan, const TileCounts& counts, const GpuModel& model, Prediction& p) {
  const double places = p.occupancy.blocks * model[Figure::multiprocessors];
  p.waves = static_cast<double>(p.counts.blocks) / places;
  p.tile_us = tile_us(plan, counts, model);
  const bool persistent = plan.gpu_schedule().grid == GridForm::persistent;
  const double of_blocks = static_cast<double>(p.counts.tiles) * plan.gpu().cluster;
  const double turns = persistent ? most_tiles(of_blocks, static_cast<double>(p.counts.blocks))
                                  : std::max(1.0, p.waves);  // a place takes the next block as soon as it is free
  p.latency_us = turns * p.tile_us + (persistent ? microseconds(block_start_cycles(counts), model) : 0);
  const double resident = std::min(static_cast<double>(p.occupancy.blocks),
                                   most_tiles(static_cast<double>(p.counts.blocks), model[Figure::multiprocessors]));
  p.in_flight_bytes = resident * plan.gpu().block_threads * static_cast<double>(counts.waits.batch_bytes);
  p.needed_bytes = model[Figure::gb_per_s] * model[Figure::memory_efficiency] * model[Figure::memory_latency_ns] /
                   model[Figure::multiprocessors];
}

Bound largest(const Prediction& p) {
  const std::pair<double, Bound> parts[] = {{p.launch_us, Bound::launch},
                                            {p.memory_us, Bound::memory},
                                            {p.cache_us, Bound::cache},
                                            {p.issue_us, Bound::issue},
                                            {p.latency_us, Bound::latency}};
  return std::max_element(std::begin(parts), std::end(parts), [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

}  // namespace

const char* to_text(Bound bound) {
  constexpr const char* kNames[] = {"launch", "memory", "cache", "issue", "latency"};
  return kNames[static_cast<int>(bound)];
}

std::int64_t launched_blocks(const Plan& plan, std::int64_t rows, const Occupancy& occupancy, const GpuModel& model) {
  const std::int64_t blocks = grid_blocks(plan, rows);
  if (plan.gpu_schedule().grid == GridForm::once) return blocks;
  const std::int64_t cluster = plan.gpu().cluster;
  const std::int64_t resident = occupancy.blocks * static_cast<std::int64_t>(model[Figure::multiprocessors]);
  return std::min(blocks, std::max(resident / cluster, std::int64_t{1}) * cluster);
}

Prediction predict(const Plan& plan, const TileCounts& counts, std::int64_t rows, const GpuModel& model,
                   std::optional<int> registers) {
  Prediction p;
  p.occupancy = occupancy_of(plan, model, registers);
  p.launch_us = model[Figure::launch_us];
  if (p.occupancy.blocks == 0) {
    p.time_us = std::numeric_limits<double>::infinity();
    p.bound = Bound::latency;
    return p;
  }
  p.counts = count_launch(plan, counts, rows, launched_blocks(plan, rows, p.occupancy, model));
  predict_bytes(plan, counts, rows, model, p);
  predict_busiest(model, p);
  predict_latency(plan, counts, model, p);
  const double drain = p.waves > 1 ? kDrainShare * p.tile_us : 0;
  p.time_us = p.launch_us + combine({p.memory_us, p.cache_us, p.issue_us, p.latency_us}) + drain;
  p.bound = largest(p);
  return p;
}

}  // namespace headnorm
