#include "tuner/cost_model/occupancy.h"

#include <algorithm>

namespace headnorm {
namespace {

constexpr int kWarp = 32;
constexpr int kRegisterUnit = 256;     // a warp is given registers in units of so many
constexpr int kSharedUnitBytes = 128;  // and a block shared memory
constexpr int kRegisterStep = 8;       // registers of a thread come in eights

int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

int figure(const GpuModel& model, Figure figure) { return static_cast<int>(model[figure]); }

}  // namespace

const char* to_text(RegisterSource source) { return source == RegisterSource::estimate ? "estimate" : "ptxas"; }

const char* to_text(OccupancyLimit limit) {
  constexpr const char* kNames[] = {"threads", "blocks", "registers", "shared memory"};
  return kNames[static_cast<int>(limit)];
}

Occupancy occupancy_of(const Plan& plan, const GpuModel& model, std::optional<int> registers) {
  const GpuPlan& shape = plan.gpu();
  Occupancy occupancy;
  occupancy.registers = registers.value_or(shape.registers);
  occupancy.source = registers ? RegisterSource::assembler : RegisterSource::estimate;
  const int warps = shape.block_threads / kWarp;
  const int of_warp = round_up(round_up(occupancy.registers, kRegisterStep) * kWarp, kRegisterUnit);
  // A multiprocessor has four register files, and a warp's registers are in one of them.
  const int warps_with_registers = figure(model, Figure::registers_per_multiprocessor) / 4 / of_warp * 4;
  const int shared = round_up(shape.shared_bytes + shape.dynamic_shared_bytes, kSharedUnitBytes) +
                     figure(model, Figure::shared_bytes_reserved_per_block);
  const std::pair<OccupancyLimit, int> limits[] = {
      {OccupancyLimit::threads, figure(model, Figure::threads_per_multiprocessor) / shape.block_threads},
      {OccupancyLimit::blocks, figure(model, Figure::blocks_per_multiprocessor)},
      {OccupancyLimit::registers, warps_with_registers / warps},
      {OccupancyLimit::shared_memory, figure(model, Figure::shared_bytes_per_multiprocessor) / shared}};
  const auto* least =
      std::min_element(std::begin(limits), std::end(limits), [](const auto& a, const auto& b) { return a.second < b.second; });
  occupancy.limit = least->first;
  occupancy.blocks = least->second;
  occupancy.threads = occupancy.blocks * shape.block_threads;
  occupancy.share = occupancy.threads / model[Figure::threads_per_multiprocessor];
  return occupancy;
}

}  // namespace headnorm
