// Rules and derived numbers of GPU schedules.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "core/cluster.h"
#include "core/plan_rules.h"

namespace headnorm {

using plan_rules::fixed_by_mode;
using plan_rules::illegal;
using plan_rules::is_power_of_two;
using plan_rules::kept_values;
using plan_rules::too_many_parts;

namespace {

constexpr std::int64_t kMaxKeptRegisters = 128;   // of a lane, for u and for weights read ahead
constexpr std::int64_t kRegisterFile = 65536;     // registers that the threads of one block share
constexpr std::int64_t kMaxRegisters = 255;       // of a thread
constexpr std::int64_t kWorkRegisters = 32;       // of a thread, for addresses, weights and sums
constexpr std::int64_t kLeastWorkRegisters = 16;  // of a thread that keeps as much as it can
constexpr std::int64_t kMoreWorkRegisters = 8;    // with both a residual and a gate; and again with clusters, and with staging
constexpr int kMaxBlockThreads = 1024;
constexpr int kMaxAccessBytes = 32;
constexpr int kMaxUnroll = 16;
constexpr std::int64_t kBatchBytes = 192;  // that a lane loads before it computes, where the schedule leaves it open
constexpr std::int64_t kMaxGrid = 0x7fffffff;

Result<void> check_gpu_fields(const GpuSchedule& s, const Target& target) {
  if (!is_power_of_two(s.lanes) || s.lanes > kMaxBlockThreads)
    return illegal("lanes", fmt::to_string(s.lanes), "must be a power of two of at most 1024");
  if (!is_power_of_two(s.vector_elements) || s.vector_elements > 16)
    return illegal("vector", fmt::to_string(s.vector_elements), "must be 1, 2, 4, 8 or 16 elements");
  if (s.block_threads < 32 || s.block_threads > kMaxBlockThreads || s.block_threads % 32 != 0)
    return illegal("block", fmt::to_string(s.block_threads), "must be a multiple of 32 from 32 to 1024 threads");
  for (const auto& [field, value] : {std::pair("groups", s.groups), std::pair("rows", s.rows)}) {
    if (value < 0 || value > kMaxBlockThreads) return illegal(field, fmt::to_string(value), "must be 0 (as many as fit) to 1024");
  }
  if (s.unroll < 0 || s.unroll > kMaxUnroll)
    return illegal("unroll", fmt::to_string(s.unroll), "must be 0 (as many as fit) to 16 chunks");
  if (!is_power_of_two(s.access_bytes) || s.access_bytes < 2 || s.access_bytes > kMaxAccessBytes)
    return illegal("access", fmt::to_string(s.access_bytes), "must be 2, 4, 8, 16 or 32 bytes");
  if (s.access_bytes > target.max_access_bytes())
    return user_error(fmt::format("schedule access={}: an access of {} is at most {} bytes wide", s.access_bytes, to_text(target),
                                  target.max_access_bytes()),
                      "use access=16; 32 bytes need sm_100 or later and PTX 8.8, e.g. --target sm_100+ptx88");
  return plan_rules::check_movement_fields(s, target);
}

GpuReduction reduction_over(std::int64_t threads) {
  const std::int64_t shuffle_lanes = std::gcd(threads, std::int64_t{32});
  return {static_cast<int>(shuffle_lanes), static_cast<int>(threads / shuffle_lanes)};
}

// Every access starts at a multiple of a part and of a vector: it can be as wide as the widest power of two that divides both.
int widest_access(std::int64_t part_elements, int vector_elements, Dtype dtype) {
  const std::int64_t bytes = size_bytes(dtype);
  return static_cast<int>(std::gcd(std::gcd(part_elements * bytes, vector_elements * bytes), std::int64_t{kMaxAccessBytes}));
}

// One access width for the plan: no operand has a wider one, and none of another value would give other code.
int canonical_access(const Plan& plan, const GpuSchedule& s) {
  int widest = 1, narrowest = kMaxAccessBytes;
  for (Operand operand : kOperands) {
    if (!has_operand(plan.spec, operand)) continue;
    const Dtype dtype = operand_dtype(plan.spec, operand);
    widest = std::max(widest, widest_access(plan.part_elements, s.vector_elements, dtype));
    narrowest = std::min(narrowest, size_bytes(dtype));
  }
  return std::max(std::min(s.access_bytes, widest), narrowest);
}

// The tile of a block: groups of a row, then rows, each as the schedule says or as many as `block` holds.
Result<void> choose_tile(const Plan& plan, std::int64_t group_threads, GpuSchedule& s) {
  const std::int64_t fit = std::max<std::int64_t>(1, s.block_threads / group_threads);
  std::int64_t groups = s.groups;
  if (groups == 0) {
    groups = std::min({fit / std::max(s.rows, 1), plan.groups_per_row, std::int64_t{kMaxBlockThreads}});
    groups = std::max<std::int64_t>(groups, 1);
    while (plan.groups_per_row % groups != 0) --groups;
  }
  if (plan.groups_per_row % groups != 0)
    return illegal("groups", fmt::to_string(groups), fmt::format("does not divide the {} groups of a row", plan.groups_per_row));
  const std::int64_t rows = s.rows == 0 ? std::max<std::int64_t>(1, fit / groups) : s.rows;
  if (groups * rows * group_threads > kMaxBlockThreads)
    return illegal(s.rows == 0 ? "groups" : "rows", fmt::to_string(s.rows == 0 ? groups : rows),
                   fmt::format("a tile of {} groups and {} rows takes {} threads, a block has at most {}", groups, rows,
                               groups * rows * group_threads, kMaxBlockThreads));
  s.groups = static_cast<int>(groups);
  s.rows = static_cast<int>(rows);
  return {};
}

// Floats of shared memory that a reduction over heads or seed heads takes: what the runs of threads leave, and what the blocks of a
// cluster do.
int partial_sums(const Plan& plan, const GpuPlan& shape, std::int64_t parts) {
  const GpuReduction& reduction = parts > 1 ? shape.over_group : shape.over_part;
  const int of_runs = reduction.partials > 1 ? reduction.partials : 0, of_blocks = shape.cluster > 1 ? shape.cluster : 0;
  return static_cast<int>(shape.groups_per_block() * (parts > 1 ? 1 : plan.parts_per_group) * (of_runs + of_blocks));
}

// Of an element of u: what it was loaded as or rounded to, which is exact.
int u_bytes(const KernelSpec& spec) {
  if (!spec.has_residual()) return size_bytes(spec.x_dtype);
  return spec.norm_input == NormInput::rounded ? size_bytes(spec.residual_dtype) : 4;
}

int weight_bytes(const KernelSpec& spec, Operand operand) {
  if (!has_operand(spec, operand) || (operand == Operand::gamma && spec.weight == WeightForm::head)) return 0;
  return size_bytes(operand_dtype(spec, operand));
}

// Chunks that a lane loads before it computes.
std::int64_t choose_unroll(const Plan& plan, const GpuPlan& shape, const GpuSchedule& s) {
  const KernelSpec& spec = plan.spec;
  const int row_bytes = size_bytes(spec.x_dtype) + (spec.has_residual() ? size_bytes(spec.residual_dtype) : 0);
  const int last = weight_bytes(spec, Operand::gamma) + weight_bytes(spec, Operand::alpha);
  const int bytes =
      std::max(row_bytes + weight_bytes(spec, Operand::beta), last + (s.residency == Residency::reload ? row_bytes : 0));
  const std::int64_t room = shape.block_threads > 512 ? kBatchBytes / 4 : kBatchBytes;
  const std::int64_t wanted = s.unroll > 0 ? s.unroll : std::clamp<std::int64_t>(room / (bytes * shape.vector_elements), 1, 4);
  if (s.residency == Residency::registers) return std::min(wanted, shape.chunks);
  // A loop runs over at least two turns: what two sweeps read in straight code would be kept in registers.
  const std::int64_t most = plan.part_elements / shape.chunk_elements() / 2;
  return s.unroll > 0 ? std::min(wanted, most)
                      : std::min(wanted, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most))));
}

// Registers that `elements` of an operand take as they stand in memory: an access narrower than a register has one of its own.
std::int64_t loaded_registers(const Plan& plan, const GpuPlan& shape, Operand operand, std::int64_t elements) {
  if (!has_operand(plan.spec, operand)) return 0;
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::head) return 0;
  const std::int64_t access = plan_rules::access_of(plan, shape, operand),
                     bytes = elements * size_bytes(operand_dtype(plan.spec, operand));
  return (bytes + access - 1) / access * std::max<std::int64_t>(access / 4, 1);
}

// Registers that weights read ahead stay in.
std::int64_t weight_registers(const Plan& plan, const GpuPlan& shape) {
  if (plan.gpu_schedule().weights == WeightLoad::after) return 0;
  const auto of = [&](Operand operand) { return loaded_registers(plan, shape, operand, shape.chunks * shape.vector_elements); };
  // In mode safe-range beta is read in a sweep after the first, too.
  const bool has_beta = shape.weights_stay || plan.spec.mode == Mode::safe_range;
  return of(Operand::gamma) + of(Operand::alpha) + (has_beta ? of(Operand::beta) : 0);
}

// Registers that a u which is stored as bf16 stays in once more, rounded.
std::int64_t rounded_registers(const Plan& plan, const GpuPlan& shape) {
  const KernelSpec& spec = plan.spec;
  if (!spec.has_residual() || spec.norm_input != NormInput::rounded || spec.residual_dtype != Dtype::bf16) return 0;
  return shape.chunks * shape.vector_elements / std::min(shape.vector_elements, 2);
}

std::int64_t most_registers(std::int64_t block_threads) { return std::min(kMaxRegisters, kRegisterFile / block_threads / 8 * 8); }

// Registers of a lane for what it keeps.
std::int64_t room_for_kept(const KernelSpec& spec, std::int64_t block_threads, const GpuSchedule& s) {
  std::int64_t work = kWorkRegisters;
  if (spec.has_residual() && spec.has_gate()) work += kMoreWorkRegisters;
  if (s.cluster > 1) work += kMoreWorkRegisters;
  if (s.staging != Staging::none) work += kMoreWorkRegisters;
  return std::min(kMaxKeptRegisters, most_registers(block_threads) - work);
}

Result<void> check_registers(const Plan& plan, const GpuPlan& shape) {
  const std::int64_t u = kept_values(plan.spec) * shape.chunks * shape.vector_elements, weights = weight_registers(plan, shape);
  const std::int64_t room = room_for_kept(plan.spec, shape.block_threads, plan.gpu_schedule());
  // What u is rounded to waits for its store; where nothing else is left, not beside weights.
  const std::int64_t rounded = weights > 0 ? rounded_registers(plan, shape) : 0;
  const std::int64_t most = most_registers(shape.block_threads) - kLeastWorkRegisters;
  if (u + weights <= room && u + rounded + weights <= most) return {};
  if (u <= room)
    return illegal("weights", "before",
                   fmt::format("a lane would keep {} registers of u and {} of weights, at most {} fit with {} threads in a "
                               "block; use more lanes, a wider access, a smaller block or weights=after",
                               u + rounded, weights, rounded > 0 ? most : room, shape.block_threads));
  return illegal("residency", "registers",
                 fmt::format("a lane would keep {} elements, at most {} fit with {} threads in a block; use more lanes, a smaller "
                             "block, residency=shared or residency=reload",
                             u, room, shape.block_threads));
}

// What a lane loads before it computes, in either sweep, has to be in registers at one time.
Result<void> check_batch(const Plan& plan, const GpuPlan& shape) {
  const auto of = [&](Operand operand) {
    return loaded_registers(plan, shape, operand, std::int64_t{shape.unroll} * shape.vector_elements);
  };
  const std::int64_t rows = of(Operand::x) + of(Operand::residual), last = of(Operand::gamma) + of(Operand::alpha);
  const bool reads_again = plan.gpu_schedule().residency == Residency::reload;
  const std::int64_t loaded = std::max(rows + of(Operand::beta), last + (reads_again ? rows : 0));
  const std::int64_t most = most_registers(shape.block_threads);
  if (loaded <= most) return {};
  return illegal("unroll", fmt::to_string(shape.unroll),
                 fmt::format("a lane would load {} registers before it computes, and has {} with {} threads in a block; use less "
                             "unroll or vector, or a smaller block",
                             loaded, most, shape.block_threads));
}

std::int64_t kept_in_shared(const GpuPlan& shape) {
  return shape.chunks * shape.vector_elements * shape.kept_bytes * shape.block_threads;
}

Result<void> check_shared(const Plan& plan, const GpuPlan& shape) {
  const std::int64_t needed = shape.shared_bytes + kept_in_shared(shape);
  if (needed <= plan.target.max_shared_bytes()) return {};
  return illegal("residency", "shared",
                 fmt::format("a block would keep {} bytes in shared memory, {} has {}; use fewer groups and rows, or "
                             "residency=reload",
                             needed, to_text(plan.target), plan.target.max_shared_bytes()));
}

// Lanes for parts of `part` elements in vectors of `vector` elements of `bytes` each. Good choices read whole sectors at a step,
// keep at most 32 elements in a lane and, beyond one warp, two 16-byte vectors in flight; among them the one with the least idle
// lanes, then the most lanes.
int default_lanes(std::int64_t part, int vector, int bytes, std::int64_t most) {
  std::tuple best(true, std::numeric_limits<std::int64_t>::max(), -1);  // not good, elements spanned, -lanes
  for (int lanes = 1; lanes <= most && (lanes == 1 || std::int64_t{lanes} / 2 * vector < part); lanes *= 2) {
    const std::int64_t step = std::int64_t{lanes} * vector, chunks = (part + step - 1) / step;
    const bool whole_sectors = chunks == 1 || step * bytes >= 64;
    const bool few_elements = chunks * vector <= 32 || lanes * 2 > most;
    const bool busy = lanes <= 32 || chunks * vector * bytes >= 32;
    best = std::min(best, std::tuple(!(whole_sectors && few_elements && busy), chunks * step, -lanes));
  }
  return -std::get<2>(best);
}

// A part that one block cannot keep in registers is shared by a cluster that can, of few threads a block so that each has many
// registers; by the largest that every device takes where none can.
void share_among_blocks(const KernelSpec& spec, std::int64_t part_elements, std::int64_t parts_per_group, GpuSchedule& s) {
  constexpr std::int64_t kBlockThreads = 512;
  const auto keeps = [&] {
    const std::int64_t step = std::int64_t{s.lanes} * s.cluster * s.vector_elements;
    const std::int64_t kept = kept_values(spec) * ((part_elements + step - 1) / step) * s.vector_elements;
    return kept <= room_for_kept(spec, std::max<std::int64_t>(s.lanes * parts_per_group, 32), s);
  };
  if (keeps()) return;
  const int lanes = s.lanes;
  while (s.lanes > 1 && s.lanes * parts_per_group > kBlockThreads) s.lanes /= 2;
  while (s.cluster < kPortableCluster && s.cluster * 2 <= s.lanes && !keeps()) s.cluster *= 2;
  if (s.cluster == 1 && !keeps()) s.lanes = lanes;
}

// The lanes, vector and cluster of the schedule that needs no tuning: what decides the order of sums.
GpuSchedule default_order(const KernelSpec& spec, const Target& target, std::int64_t part_elements, std::int64_t parts_per_group) {
  GpuSchedule s;
  s.vector_elements = 16 / size_bytes(spec.x_dtype);
  while (part_elements % s.vector_elements != 0) s.vector_elements /= 2;
  s.lanes = default_lanes(part_elements, s.vector_elements, size_bytes(spec.x_dtype), kMaxBlockThreads / parts_per_group);
  if (target.has_clusters()) share_among_blocks(spec, part_elements, parts_per_group, s);
  return s;
}

Result<void> check_order(const GpuSchedule& s, const GpuSchedule& fixed) {
  if (s.lanes != fixed.lanes) return fixed_by_mode("lanes", fmt::to_string(s.lanes), fmt::to_string(fixed.lanes));
  if (s.vector_elements != fixed.vector_elements)
    return fixed_by_mode("vector", fmt::to_string(s.vector_elements), fmt::to_string(fixed.vector_elements));
  if (s.cluster != fixed.cluster) return fixed_by_mode("cluster", fmt::to_string(s.cluster), fmt::to_string(fixed.cluster));
  return {};
}

// The rules of the threads of a group.
Result<void> check_group(const Plan& plan, const GpuSchedule& s) {
  const std::int64_t lanes = std::int64_t{s.lanes} * s.cluster;
  if (lanes > 1 && lanes / 2 * s.vector_elements >= plan.part_elements)
    return illegal(
        s.cluster > 1 ? "cluster" : "lanes", fmt::to_string(s.cluster > 1 ? s.cluster : s.lanes),
        fmt::format("half of the lanes with {} elements each already cover a part of {}", s.vector_elements, plan.part_elements));
  if (plan.parts_per_group > kMaxBlockThreads) return too_many_parts(plan, kMaxBlockThreads);
  const std::int64_t group_threads = plan.parts_per_group * s.lanes;
  if (group_threads <= kMaxBlockThreads) return {};
  return illegal("lanes", fmt::to_string(s.lanes),
                 fmt::format("a group of {} parts takes {} threads, a block has at most {}", plan.parts_per_group, group_threads,
                             kMaxBlockThreads));
}

// Parts, tile and block; the fields of `s` that decide them are canonical afterwards.
Result<GpuPlan> plan_threads(const Plan& plan, GpuSchedule& s) {
  const std::int64_t group_threads = plan.parts_per_group * s.lanes;
  HEADNORM_CHECK(choose_tile(plan, group_threads, s));
  GpuPlan shape;
  shape.lanes = s.lanes;
  shape.cluster = s.cluster;
  shape.vector_elements = s.vector_elements;
  const std::int64_t step = shape.chunk_elements();
  shape.chunks = (plan.part_elements + step - 1) / step;
  shape.exact = plan.part_elements % step == 0;
  shape.packed = plan.target.has_packed_f32() && shape.vector_elements > 1;
  shape.groups_per_tile = s.groups;
  shape.rows_per_tile = s.rows;
  shape.tiles_per_row = plan.groups_per_row / s.groups;
  s.block_threads = shape.block_threads = static_cast<int>((shape.groups_per_block() * group_threads + 31) / 32 * 32);
  shape.over_part = reduction_over(s.lanes);
  shape.over_group = reduction_over(group_threads);
  shape.max_rows_per_launch = kMaxGrid / shape.cluster / shape.tiles_per_row * shape.rows_per_tile;
  return shape;
}

// How operands are read and kept, likewise.
void plan_accesses(const Plan& plan, GpuSchedule& s, GpuPlan& shape) {
  if (plan.part_elements / shape.chunk_elements() < 2) s.residency = Residency::registers;  // nothing to loop over
  s.unroll = shape.unroll = static_cast<int>(choose_unroll(plan, shape, s));
  const bool has_later_weights = plan.spec.has_gamma() || plan.spec.has_gate();
  if (s.residency != Residency::registers || !has_later_weights) s.weights = WeightLoad::after;  // a loop reads them in its turns
  shape.weights_stay = s.weights == WeightLoad::before && s.grid == GridForm::persistent && shape.tiles_per_row == 1;
  s.access_bytes = shape.access_bytes = canonical_access(plan, s);
  s.launch = plan_rules::canonical_launch(s, shape);
}

// Of the sums.
int sum_bytes(const Plan& plan, const GpuPlan& shape) {
  int bytes = 4 * partial_sums(plan, shape, plan.parts_per_head);
  if (plan.spec.has_gate()) bytes += 4 * partial_sums(plan, shape, plan.parts_per_seed);
  // The peaks have an array of their own, aligned to 16 bytes.
  return plan.spec.mode == Mode::safe_range ? bytes + (bytes + 15) / 16 * 16 : bytes;
}

}  // namespace

Result<void> plan_rules::plan_gpu(Plan& plan) {
  GpuSchedule s = plan.gpu_schedule();
  HEADNORM_CHECK(check_gpu_fields(s, plan.target));
  HEADNORM_CHECK(check_group(plan, s));
  if (plan.spec.mode == Mode::batch_invariant)
    HEADNORM_CHECK(check_order(s, default_order(plan.spec, plan.target, plan.part_elements, plan.parts_per_group)));
  HEADNORM_TRY(GpuPlan shape, plan_threads(plan, s));
  plan_accesses(plan, s, shape);
  shape.shared_bytes = sum_bytes(plan, shape);
  HEADNORM_CHECK(plan_staging(plan, s, shape));
  plan.schedule = s;
  if (s.residency == Residency::registers) HEADNORM_CHECK(check_registers(plan, shape));
  HEADNORM_CHECK(check_batch(plan, shape));
  if (s.residency == Residency::shared && s.staging == Staging::none) {
    shape.kept_bytes = u_bytes(plan.spec);
    HEADNORM_CHECK(check_shared(plan, shape));
    shape.dynamic_shared_bytes = static_cast<int>(kept_in_shared(shape));
  }
  shape.registers = estimate_registers(plan, shape);
  plan.shape = shape;
  return {};
}

Schedule plan_rules::default_gpu_schedule(const KernelSpec& spec, const Target& target) {
  const std::int64_t seed = spec.has_gate() ? spec.width / spec.seed_heads : spec.head_size;
  const std::int64_t part = std::min(spec.head_size, seed);
  const std::int64_t parts_per_group = std::max(spec.head_size, seed) / part;
  GpuSchedule s = default_order(spec, target, part, parts_per_group);
  s.block_threads = 128;
  if (make_plan(spec, s, target).ok()) return s;
  s.residency = s.cluster > 1 ? Residency::shared : Residency::reload;
  if (!make_plan(spec, s, target).ok()) s.residency = Residency::reload;
  return s;
}

std::int64_t tile_count(const Plan& plan, std::int64_t rows) {
  const GpuPlan& shape = plan.gpu();
  return (rows + shape.rows_per_tile - 1) / shape.rows_per_tile * shape.tiles_per_row;
}

std::int64_t grid_blocks(const Plan& plan, std::int64_t rows) { return tile_count(plan, rows) * plan.gpu().cluster; }

int operand_access_bytes(const Plan& plan, Operand operand) { return plan_rules::access_of(plan, plan.gpu(), operand); }

int plan_rules::access_of(const Plan& plan, const GpuPlan& shape, Operand operand) {
  const Dtype dtype = operand_dtype(plan.spec, operand);
  // A weight per head is read one element at a time.
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::head) return size_bytes(dtype);
  const int widest = widest_access(plan.part_elements, shape.vector_elements, dtype);
  return std::max(std::min(shape.access_bytes, widest), size_bytes(dtype));
}

}  // namespace headnorm
