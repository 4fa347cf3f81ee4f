#include "tuner/cost_model/tile_counts.h"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "core/cluster.h"
#include "tuner/cost_model/sectors.h"

namespace headnorm {
namespace {

// What the lowering (generator/backend/nvptx) makes of a plan, in PTX instructions; found by counting on the emulator, where the
// tests count again.
constexpr double kThreadAddress = 16.5;     // the thread's place in the block, its tile's row
constexpr double kRowOperandAddress = 2.8;  // the lane's place in a tensor
constexpr double kWeightAddress = 0.5;      // the same in a weight
constexpr double kSpareThreads = 2.8;       // of a block with threads past its last part
constexpr double kRowOfTile = 3;            // of a tile of several rows
constexpr double kOddDivision = 3;          // of them by what is no power of two
constexpr double kTileOfRowAddress = 6;     // of a tile that is not a whole row
constexpr double kTailAddress = 10.5;       // of a part whose last chunk reaches past its end
constexpr double kTailWeight = 1.4;         // of a weight that is read ahead, past the end as well
constexpr double kTurnAddress = 2.2;        // of a loop, each turn
constexpr double kTurnOperand = 1.4;        // and for each operand that it goes through
constexpr double kLoopAddress = 8;          // of the loops of both sweeps
constexpr double kPersistentAddress = 7.5;  // of going on to the next tile
constexpr double kPersistentRow = 4;        // and of its several rows
constexpr double kBlockShare = 0.6;    // of what a thread finds out first, in a persistent grid: not done again for the next tile
constexpr double kPartialAddress = 6;  // of the sums in shared memory
constexpr double kLoopedPartial = 4;   // of one partial sum, where a loop adds them
constexpr double kClusterBarrier = 4;  // arriving and waiting, before blocks write to one another and after
constexpr double kStatistic = 2;       // arithmetic of a root

// Arithmetic of sigma, and its longest chain.
double gate_arithmetic(Sigma sigma) {
  switch (sigma) {
    case Sigma::tanh:
      return 13;
    case Sigma::sigmoid:
      return 14;
    case Sigma::softsign:
      return 4;
    case Sigma::hardtanh:
      return 3;
  }
  return 0;
}

bool is_looped(const Plan& plan) { return plan.gpu_schedule().residency != Residency::registers; }
bool is_persistent(const Plan& plan) { return plan.gpu_schedule().grid == GridForm::persistent; }

double unpack(Dtype dtype) { return dtype == Dtype::f32 ? 0 : 1; }

// f16 in accesses of 16 bytes comes as four registers that are split.
double split(const Plan& plan, Operand operand) {
  return operand_dtype(plan.spec, operand) == Dtype::f16 && operand_access_bytes(plan, operand) >= 16 ? 0.5 : 0;
}

double pack(const Plan& plan, Dtype dtype) {
  if (dtype == Dtype::f32) return 0;
  return plan.gpu().vector_elements == 1 ? 1 : 0.5;
}

double round_trip(const Plan& plan, Dtype dtype) {
  if (dtype == Dtype::f32) return 0;
  return dtype == Dtype::bf16 ? pack(plan, dtype) + 1 : 2;
}

// A sum of two f16 numbers that is rounded to f16 needs no f32.
bool adds_in_f16(const KernelSpec& spec) {
  return spec.residual_scale == 1 && spec.has_residual() && spec.norm_input == NormInput::rounded && spec.x_dtype == Dtype::f16 &&
         spec.residual_dtype == Dtype::f16;
}

// Instructions of one element of a lane.
struct PerElement {
  double arithmetic = 0, conversion = 0, pairing = 0;
  PerElement& operator+=(const PerElement& other) {
    arithmetic += other.arithmetic;
    conversion += other.conversion;
    pairing += other.pairing;
    return *this;
  }
};

// What changes where `operations` take two elements at a time: `joints` values are joined to pairs or taken apart for them.
PerElement in_pairs(const Plan& plan, int operations, int joints) {
  if (!plan.gpu().packed) return {};
  return {-0.5 * operations, 0, 0.5 * joints};
}

PerElement load(const Plan& plan, Operand operand) { return {0, unpack(operand_dtype(plan.spec, operand)) + split(plan, operand)}; }

// Whether x and residual are added two elements at a time on a target that has it.
bool sums_in_pairs(const KernelSpec& spec) {
  const bool has_f16 = spec.x_dtype == Dtype::f16 || spec.residual_dtype == Dtype::f16;
  return spec.has_residual() && !has_f16 && spec.residual_scale == 1;
}

// Whether u, as the sweeps after its first take it, still is such a sum; else they join it.
bool has_u_in_pairs(const Plan& plan) {
  const bool is_rounded = plan.spec.norm_input == NormInput::rounded && plan.spec.residual_dtype != Dtype::f32;
  return sums_in_pairs(plan.spec) && !is_rounded && !is_looped(plan);
}

// u from x and residual.
PerElement input(const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  if (adds_in_f16(spec))
    return {1, split(plan, Operand::x) + split(plan, Operand::residual) + split(plan, Operand::residual_out) + 1};
  PerElement count = load(plan, Operand::x);
  if (!spec.has_residual()) return count;
  count += load(plan, Operand::residual);
  count.arithmetic += 1;
  if (spec.residual_scale != 1) {
    count.arithmetic += 1;
    count += in_pairs(plan, 1, 2);
  }
  if (sums_in_pairs(spec)) count += in_pairs(plan, 1, 3);
  if (spec.norm_input == NormInput::rounded) count.conversion += round_trip(plan, spec.residual_dtype);
  return count;
}

// sm_100 has operations on f32 that take f16 operands as they are.
bool takes_f16(const Plan& plan) { return plan.target.sm >= 100 && plan.target.ptx >= 86 && plan.spec.x_dtype == Dtype::f16; }

// sm_100 has a maximum of three.
bool has_wide_maximum(const Target& target) { return target.sm >= 100 && target.ptx >= 88; }

// Of safe-range: a sweep for the peak, and what the sums take, u times a scale for the head and one for the seed.
PerElement scaled_values(const Plan& plan) {
  const int products = plan.spec.has_gate() ? 2 : 1;
  PerElement count{1 + (has_wide_maximum(plan.target) ? 0.5 : 1) + products, 0};
  count += in_pairs(plan, products, (has_u_in_pairs(plan) ? 0 : 1) + products);
  return count;
}

PerElement first_sweep(const Plan& plan) {
  PerElement count = input(plan);
  if (takes_f16(plan) && is_looped(plan)) count.conversion -= 1;
  count.arithmetic += 1;  // the square
  if (plan.spec.mode == Mode::safe_range) count += scaled_values(plan);
  if (!plan.spec.has_gate()) return count;
  count += load(plan, Operand::beta);
  count.arithmetic += 1;
  return count;
}

// Of the last sweep: u, and n where it is rounded, are joined unless they are of pairs already; y is taken apart.
PerElement last_pairs(const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  const bool has_scaled_pairs = spec.mode == Mode::safe_range && !is_looped(plan);
  int operations = 1, joints = (has_scaled_pairs || has_u_in_pairs(plan) ? 0 : 1) + (spec.rounding == Rounding::llama ? 2 : 0) + 1;
  if (spec.has_gamma() || spec.has_gate()) ++operations;
  if (spec.has_gamma() && spec.weight != WeightForm::head) {
    ++joints;
    if (spec.weight_offset != 0) ++operations;
  }
  if (spec.has_gate()) {
    ++operations;
    ++joints;
  }
  return in_pairs(plan, operations, joints);
}

// From u to y, u being at hand.
PerElement last_sweep(const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  PerElement count{1, pack(plan, spec.y_dtype)};
  if (spec.has_gamma() || spec.has_gate()) count.arithmetic += 1;
  if (spec.has_gamma() && spec.weight != WeightForm::head) {
    count += load(plan, Operand::gamma);
    if (spec.weight_offset != 0) count.arithmetic += 1;
  }
  if (spec.has_gate()) {
    count += load(plan, Operand::alpha);
    count.arithmetic += 1;
    if (takes_f16(plan) && !plan.gpu().packed) count.conversion -= 1;
  }
  if (spec.rounding == Rounding::llama) count.conversion += round_trip(plan, spec.x_dtype);
  if (spec.has_residual() && spec.norm_input == NormInput::unrounded) count.conversion += pack(plan, spec.residual_dtype);
  count += last_pairs(plan);
  return count;
}

// Of taking u up again for the last sweep.
PerElement recall(const Plan& plan) {
  switch (plan.gpu_schedule().residency) {
    case Residency::registers:
      return {};
    case Residency::shared:
      return {0, plan.gpu().kept_bytes == 2 ? 1.0 : 0.0};
    case Residency::reload:
      return input(plan);
  }
  return {};
}

// Of the chunks of a warp, on average, in the last sweep: a warp whose elements of the last chunk all lie past the end of the part
// goes around what is only stored.
double written_chunks(const Plan& plan) {
  const GpuPlan& shape = plan.gpu();
  const auto chunks = static_cast<double>(shape.chunks);
  const int warps = shape.part_lanes() / 32;
  if (!tail_is_alone(plan) || warps < 2) return chunks;
  const std::int64_t left = plan.part_elements - (shape.chunks - 1) * shape.chunk_elements();
  const std::int64_t of_warp = 32 * std::int64_t{shape.vector_elements};
  return chunks - 1 + static_cast<double>((left + of_warp - 1) / of_warp) / warps;
}

std::int64_t turns(const Plan& plan) {
  const GpuPlan& shape = plan.gpu();
  return plan.part_elements / shape.chunk_elements() / shape.unroll;
}

const GpuReduction& reduction_over(const Plan& plan, std::int64_t parts) {
  return parts > 1 ? plan.gpu().over_group : plan.gpu().over_part;
}

void add_reduction(const GpuPlan& shape, const GpuReduction& reduction, TileCounts& counts) {
  const int steps = std::countr_zero(static_cast<unsigned>(reduction.shuffle_lanes));
  counts.tile.shuffle += steps;
  counts.tile.arithmetic += steps;
  if (reduction.partials == 1) return;
  counts.tile.shared += 1 + reduction.partials;
  counts.tile.arithmetic += reduction.partials - 1;
  counts.tile.address += kPartialAddress + (adds_in_straight_code(shape, reduction) ? 0 : kLoopedPartial * reduction.partials);
}

// The reductions of a sweep, which meet together.
void count_meeting(const Plan& plan, std::span<const GpuReduction* const> reductions, TileCounts& counts) {
  Waits& waits = counts.waits;
  int most_partials = 1, most_steps = 0;
  for (const GpuReduction* reduction : reductions) {
    add_reduction(plan.gpu(), *reduction, counts);
    most_partials = std::max(most_partials, reduction->partials);
    most_steps = std::max(most_steps, std::countr_zero(static_cast<unsigned>(reduction->shuffle_lanes)));
  }
  waits.shuffles += most_steps;
  if (most_partials > 1) {
    const int barriers = is_persistent(plan) ? 2 : 1;
    waits.barriers += barriers;
    waits.shared_rounds += 2;
    waits.scalar_steps += most_partials;  // added in order
    counts.tile.barrier += barriers;
  }
  if (const int cluster = plan.gpu().cluster; cluster > 1) {
    const auto sums = static_cast<double>(reductions.size());
    ++waits.cluster_barriers;
    counts.tile.shared += sums * (1 + cluster);
    counts.tile.arithmetic += sums * (cluster - 1);
    counts.tile.barrier += kClusterBarrier;
  }
}

void count_reductions(const Plan& plan, TileCounts& counts) {
  const KernelSpec& spec = plan.spec;
  std::vector<const GpuReduction*> reductions = {&reduction_over(plan, plan.parts_per_head)};
  if (spec.has_gate()) reductions.push_back(&reduction_over(plan, plan.parts_per_seed));
  const double gate = spec.has_gate() ? gate_arithmetic(spec.sigma) : 0;
  counts.tile.arithmetic += kStatistic + gate;
  counts.waits.scalar_steps = 4 + static_cast<int>(gate);
  count_meeting(plan, reductions, counts);
  if (spec.mode == Mode::safe_range) count_meeting(plan, reductions, counts);  // of the peaks
}

double accesses_of_chunk(const Plan& plan, Operand operand) {
  const double vector_bytes = plan.gpu().vector_elements * size_bytes(operand_dtype(plan.spec, operand));
  return vector_bytes / operand_access_bytes(plan, operand);
}

double accesses(const Plan& plan, Operand operand) {
  const auto chunks = static_cast<double>(plan.gpu().chunks);
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::head) return 1;
  if (is_output(operand)) return accesses_of_chunk(plan, operand) * written_chunks(plan);
  if (!is_row_operand(operand))
    return accesses_of_chunk(plan, operand) * (read_when_stored(plan, operand) ? written_chunks(plan) : chunks);
  const bool again = plan.gpu_schedule().residency == Residency::reload;
  return accesses_of_chunk(plan, operand) * (chunks + (again ? written_chunks(plan) : 0));
}

void count_memory(const Plan& plan, TileCounts& counts) {
  for (Operand operand : kOperands) {
    if (!has_operand(plan.spec, operand)) continue;
    const bool stays = !is_row_operand(operand) && plan.gpu().weights_stay;
    (stays ? counts.block : counts.tile).memory += accesses(plan, operand);
  }
  (is_persistent(plan) ? counts.block : counts.tile).memory += static_cast<double>(launch_parameters(plan.spec).size());
  const GpuPlan& shape = plan.gpu();
  if (shape.stages > 0) {  // read from the stage where loads would be, and again by a second sweep
    const double sweeps = plan.gpu_schedule().residency == Residency::registers ? 1 : 2;
    const double bytes =
        shape.vector_elements * static_cast<double>(shape.stage_bytes) /
        (static_cast<double>(shape.block_part_elements()) * static_cast<double>(shape.groups_per_block() * plan.parts_per_group));
    counts.tile.shared += sweeps * static_cast<double>(shape.chunks) * std::max(1.0, bytes / 16);
    return;
  }
  if (plan.gpu_schedule().residency != Residency::shared) return;
  const double units = std::max(1.0, shape.vector_elements * shape.kept_bytes / 16.0);
  counts.tile.shared += 2 * static_cast<double>(shape.chunks) * units;
}

// Operands that the loops of both sweeps go through, memory between them included.
int looped_operands(const Plan& plan) {
  const bool again = plan.gpu_schedule().residency == Residency::reload;
  int count = again ? 0 : 2;
  for (Operand operand : kOperands) {
    if (!has_operand(plan.spec, operand)) continue;
    count += is_row_operand(operand) && !is_output(operand) && again ? 2 : 1;
  }
  return count;
}

int weights_by_element(const Plan& plan) {
  int count = 0;
  for (Operand operand : {Operand::gamma, Operand::alpha, Operand::beta}) {
    const bool per_head = operand == Operand::gamma && plan.spec.weight == WeightForm::head;
    if (has_operand(plan.spec, operand) && !per_head) ++count;
  }
  return count;
}

// Of finding the thread's place in the block and in the tensors.
double start_address(const Plan& plan) {
  const GpuPlan& shape = plan.gpu();
  const int rows = plan.spec.has_residual() ? 4 : 2;
  double count = kThreadAddress + kRowOperandAddress * rows + kWeightAddress * weights_by_element(plan);
  if (shape.tiles_per_row > 1) count += kTileOfRowAddress;
  if (shape.groups_per_block() * plan.parts_per_group * shape.lanes < shape.block_threads) count += kSpareThreads;
  if (shape.rows_per_tile == 1) return count;
  const bool is_odd = !std::has_single_bit(static_cast<std::uint64_t>(shape.groups_per_tile));
  return count + kRowOfTile + (is_odd ? kOddDivision : 0);
}

void count_address(const Plan& plan, TileCounts& counts) {
  const GpuPlan& shape = plan.gpu();
  const double start = start_address(plan);
  const double for_block = is_persistent(plan) ? kBlockShare * start : 0;
  counts.block.address += for_block;
  counts.tile.address += start - for_block;
  if (is_persistent(plan)) counts.tile.address += kPersistentAddress + (shape.rows_per_tile > 1 ? kPersistentRow : 0);
  if (!shape.exact) counts.tile.address += kTailAddress;
  if (!shape.exact && plan.gpu_schedule().weights == WeightLoad::before)
    counts.tile.address += kTailWeight * weights_by_element(plan);
  // Where the only chunk is one that reaches past the end, a warp past the end has nothing to do with the outputs.
  if (shape.chunks == 1) {
    const double skipped = (1 - written_chunks(plan)) * (kRowOperandAddress + 2);
    counts.tile.address -= skipped * (plan.spec.has_residual() ? 2 : 1);
  }
  if (is_looped(plan))
    counts.tile.address +=
        kLoopAddress + (2 * kTurnAddress + kTurnOperand * looped_operands(plan)) * static_cast<double>(turns(plan));
}

// From sm_100 on, weights that stay do so in 64-bit registers, which each tile takes apart.
double weight_halves(const Plan& plan) {
  if (!plan.gpu().weights_stay || plan.target.sm < 100 || plan.target.ptx < 86) return 0;
  const double bytes = static_cast<double>(plan.gpu().chunks) * plan.gpu().vector_elements * size_bytes(plan.spec.weight_dtype);
  return weights_by_element(plan) * bytes / 8;
}

void count_waits(const Plan& plan, Waits& waits) {
  const GpuPlan& shape = plan.gpu();
  const auto batches = static_cast<int>((shape.chunks + shape.unroll - 1) / shape.unroll);
  const KernelSpec& spec = plan.spec;
  waits.memory_batches = shape.stages > 0 ? 1 : batches;
  if (shape.stages > 0) waits.shared_rounds += batches;
  const bool weights_late = (spec.has_gamma() || spec.has_gate()) && plan.gpu_schedule().weights == WeightLoad::after;
  if (weights_late || plan.gpu_schedule().residency == Residency::reload) waits.cache_batches = batches;
  if (plan.gpu_schedule().residency == Residency::shared) waits.shared_rounds += batches;
  const std::int64_t row_bytes = size_bytes(spec.x_dtype) + (spec.has_residual() ? size_bytes(spec.residual_dtype) : 0);
  const std::int64_t under_way =
      shape.stages > 0 ? shape.stages * shape.chunks : std::min<std::int64_t>(shape.unroll, shape.chunks);
  waits.batch_bytes = under_way * shape.vector_elements * row_bytes;
}

}  // namespace

TileCounts count_tile(const Plan& plan) {
  TileCounts counts;
  const PerElement first = first_sweep(plan);
  PerElement last = recall(plan);
  last += last_sweep(plan);
  const double vector = plan.gpu().vector_elements;
  const double read = static_cast<double>(plan.gpu().chunks) * vector, written = written_chunks(plan) * vector;
  counts.tile.arithmetic = read * first.arithmetic + written * last.arithmetic;
  counts.tile.conversion = read * first.conversion + written * last.conversion + weight_halves(plan);
  counts.tile.pairing = read * first.pairing + written * last.pairing;
  count_reductions(plan, counts);
  count_memory(plan, counts);
  count_address(plan, counts);
  count_waits(plan, counts.waits);
  counts.tile_sectors = count_sectors(plan);
  if (plan.gpu().weights_stay) std::swap(counts.tile_sectors.weights_read, counts.block_sectors.weights_read);
  return counts;
}

LaunchCounts count_launch(const Plan& plan, const TileCounts& counts, std::int64_t rows, std::int64_t blocks) {
  LaunchCounts launch;
  launch.tiles = tile_count(plan, rows);
  launch.blocks = blocks;
  const double warps = plan.gpu().block_threads / 32.0;
  const auto turns = static_cast<double>(launch.tiles * plan.gpu().cluster);  // of blocks, a tile each
  launch.warp_instructions = warps * (turns * counts.tile.total() + static_cast<double>(launch.blocks) * counts.block.total());
  launch.warp_pairings = warps * turns * counts.tile.pairing;
  const std::int64_t moved =
      launch.tiles * counts.tile_sectors.total() + launch.blocks / plan.gpu().cluster * counts.block_sectors.total();
  // Rows that a last tile has too many of are read again and not written.
  const std::int64_t whole_rows = launch.tiles / plan.gpu().tiles_per_row * plan.gpu().rows_per_tile;
  const std::int64_t unwritten =
      (whole_rows - rows) * counts.tile_sectors.written * plan.gpu().tiles_per_row / plan.gpu().rows_per_tile;
  launch.moved_bytes = (moved - unwritten) * kSectorBytes;
  launch.footprint_bytes = minimum_traffic(plan.spec).total_bytes(rows);
  return launch;
}

}  // namespace headnorm
