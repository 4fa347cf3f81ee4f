#include "core/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace headnorm {
namespace {

constexpr int kMaxUnrolledLines = 16;         // lines of a part written as straight code
constexpr std::int64_t kMaxTileVectors = 64;  // f32 vectors of a tile of several parts: straight code, too
constexpr int kMaxTileParts = 16;
constexpr std::int64_t kShortPartVectors = 8;           // f32 vectors of a part up to which tiles are the default
constexpr int kMaxTileSums = 16;                        // vectors of partial sums of a tile
constexpr std::int64_t kMaxBlockParts = 256;            // parts of a block whose statistics wait on the stack
constexpr std::int64_t kMaxBlockBytes = kMaxWidth * 4;  // a row, at least
constexpr std::int64_t kMaxGroupParts = 65536;          // their statistics take 256 KiB of stack each
constexpr std::int64_t kMaxRegisterElements = 64;       // f32 elements of u that a GPU lane keeps
constexpr std::int64_t kRegisterFile = 65536;           // registers that the threads of one block share
constexpr std::int64_t kWorkRegisters = 32;             // of a thread, for addresses, weights and sums
constexpr int kMaxBlockThreads = 1024;
constexpr int kMaxAccessBytes = 16;
constexpr std::int64_t kMaxGrid = 0x7fffffff;

bool is_power_of_two(std::int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

Error illegal(std::string field, std::string value, std::string rule) {
  return user_error(fmt::format("schedule {}={}: {}", field, value, rule),
                    "choose another value, or leave --schedule out for the default; docs/schedules.md lists the rules");
}

// No schedule helps: a sum of the spec spans more parts than the target takes.
Error too_many_parts(const Plan& plan, std::int64_t most) {
  return user_error(
      fmt::format("a sum over {} parts of {} elements ({} heads, {} seed heads): {} takes at most {} parts", plan.parts_per_group,
                  plan.part_elements, plan.spec.heads(), plan.spec.seed_heads, to_text(plan.target), most),
      "choose heads and seed heads that are nearer in size: a larger --head-size, or more --seed-heads");
}

Result<void> check_host_fields(const HostSchedule& s) {
  if (s.accumulators != 1 && s.accumulators != 2 && s.accumulators != 4 && s.accumulators != 8)
    return illegal("accumulators", fmt::to_string(s.accumulators), "must be 1, 2, 4 or 8");
  if (!is_power_of_two(s.heads) || s.heads > kMaxTileParts)
    return illegal("heads", fmt::to_string(s.heads), "must be 1, 2, 4, 8 or 16");
  if (s.form == HostForm::pipe && s.chunk_lines != 1 && s.chunk_lines != 2 && s.chunk_lines != 4 && s.chunk_lines != 8)
    return illegal("chunk", fmt::to_string(s.chunk_lines), "must be 1, 2, 4 or 8");
  if ((s.form == HostForm::split || s.form == HostForm::pipe) && (s.block_bytes < 1 || s.block_bytes > kMaxBlockBytes))
    return illegal("block", fmt::to_string(s.block_bytes), fmt::format("must be 1 to {} bytes", kMaxBlockBytes));
  if (s.prefetch != Prefetch::none && (s.prefetch_bytes < 64 || s.prefetch_bytes > 1 << 24))
    return illegal("prefetch_bytes", fmt::to_string(s.prefetch_bytes), "must be 64 to 16777216 bytes");
  return {};
}

// Mode batch-invariant: fields that decide the order of sums or the form of an operation have one legal value, that of the schedule
// which needs no tuning.
Error fixed_by_mode(std::string field, std::string value, std::string fixed) {
  return illegal(field, std::move(value), fmt::format("mode batch-invariant fixes {}={}", field, fixed));
}

// `s` is canonical.
Result<void> check_host_order(const HostSchedule& s, const HostSchedule& fixed) {
  if (s.heads != fixed.heads) return fixed_by_mode("heads", fmt::to_string(s.heads), fmt::to_string(fixed.heads));
  if (s.accumulators != fixed.accumulators)
    return fixed_by_mode("accumulators", fmt::to_string(s.accumulators), fmt::to_string(fixed.accumulators));
  if (s.rsqrt != fixed.rsqrt) return fixed_by_mode("rsqrt", to_text(s.rsqrt), to_text(fixed.rsqrt));
  if (s.unpack != fixed.unpack) return fixed_by_mode("unpack", to_text(s.unpack), to_text(fixed.unpack));
  return {};
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Vector registers that forms with kept values have room for.
std::int64_t register_room(const Plan& plan) { return plan.target.vector_registers() - 6; }

// Short parts spend their time on sums and roots, one of each for every part: a tile shares them.
int default_heads(std::int64_t part_elements, const Target& target) {
  return part_elements * 4 <= kShortPartVectors * target.vector_bytes() ? kMaxTileParts : 1;
}

// Parts side by side: as many as asked for, lowered to what rows, groups, straight code and registers hold.
int tile_parts(const Plan& plan, const HostSchedule& s, int lanes) {
  const std::int64_t in_row = plan.parts_per_row(), in_group = plan.parts_per_group;
  const std::int64_t vectors = ceil_div(plan.part_elements, lanes);  // of one part
  const bool keeps = s.form == HostForm::reg || s.form == HostForm::rot;
  auto fits = [&](std::int64_t parts) {
    if (parts > in_row || vectors > kMaxUnrolledLines || parts * vectors > kMaxTileVectors) return false;
    // One group or parts of it, or whole groups: a value per group is the same for all parts of a tile, or for runs of one length.
    if (in_group % parts != 0 && parts % in_group != 0) return false;
    if (s.form != HostForm::split && in_row % parts != 0) return false;
    return !keeps || ceil_div(parts * plan.part_elements, lanes) + parts <= register_room(plan);
  };
  int parts = s.heads;
  while (parts > 1 && !fits(parts)) parts /= 2;
  return parts;
}

// Vector registers that u of a tile takes between the sweeps: u is kept as f32, one register per `lanes` elements.
std::int64_t kept_registers(const Plan& plan, const HostPlan& shape) {
  return ceil_div(shape.tile_parts * plan.part_elements, shape.lanes);
}

// Streaming stores need lines without a rest, in every tile and every row.
Result<void> check_streaming(const Plan& plan, const HostPlan& shape) {
  const std::int64_t tile = shape.tile_parts * plan.part_elements;
  if (tile % shape.line_elements == 0 && plan.spec.width % shape.line_elements == 0) return {};
  return illegal("store", "nt",
                 fmt::format("{} of {} elements, in rows of {}, are not a whole number of {} element lines",
                             shape.tile_parts == 1 ? "parts" : fmt::format("{} parts", shape.tile_parts), plan.part_elements,
                             plan.spec.width, shape.line_elements));
}

// The lines of a part, and with them the order of its sums. Makes the fields of `s` that decide them canonical.
HostPlan plan_lines(const Plan& plan, HostSchedule& s) {
  const KernelSpec& spec = plan.spec;
  HostPlan shape;
  shape.lanes = plan.target.vector_bytes() / 4;
  s.heads = shape.tile_parts = tile_parts(plan, s, shape.lanes);

  // even_odd needs 16-bit row tensors throughout: a f32 tensor would have to be shuffled into that order.
  bool all_bf16 = true;
  for (Operand operand : kOperands) {
    if (is_row_operand(operand) && has_operand(spec, operand) && operand_dtype(spec, operand) != Dtype::bf16) all_bf16 = false;
  }
  if (!all_bf16) s.unpack = Unpack::widen;
  shape.order = s.unpack == Unpack::even_odd ? LaneOrder::even_odd : LaneOrder::memory;
  shape.line_elements = shape.order == LaneOrder::even_odd ? 2 * shape.lanes : shape.lanes;
  // Without a full line the order has no effect; pairs of elements that belong to two parts have no order of their own.
  const bool odd_parts = shape.tile_parts > 1 && plan.part_elements % 2 != 0;
  if (shape.line_elements > shape.tile_parts * plan.part_elements || odd_parts) {
    shape.order = LaneOrder::memory;
    shape.line_elements = shape.lanes;
    s.unpack = Unpack::widen;
  }
  shape.lines_per_part = plan.part_elements / shape.line_elements;
  shape.tail_elements = static_cast<int>(plan.part_elements % shape.line_elements);
  shape.unrolled = shape.lines_per_part <= kMaxUnrolledLines;
  shape.accumulators = static_cast<int>(std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(shape.lines_per_part, 1)))), 1,
      std::min(s.accumulators, kMaxTileSums / shape.tile_parts)));
  s.accumulators = shape.accumulators;
  return shape;
}

Result<void> plan_host(Plan& plan) {
  const KernelSpec& spec = plan.spec;
  HostSchedule s = plan.host_schedule();
  HEADNORM_CHECK(check_host_fields(s));
  HostPlan shape = plan_lines(plan, s);
  if (spec.mode == Mode::batch_invariant) {
    HostSchedule fixed;
    fixed.heads = default_heads(plan.part_elements, plan.target);
    plan_lines(plan, fixed);
    HEADNORM_CHECK(check_host_order(s, fixed));
  }

  const std::int64_t group_bytes = plan.group_elements() * size_bytes(spec.x_dtype);
  switch (s.form) {
    case HostForm::reg:
    case HostForm::rot: {
      if (plan.parts_per_group != 1)
        return illegal("form", to_text(s.form),
                       "needs heads and seed heads of one size: the gate or the statistic spans several parts");
      const std::int64_t kept = kept_registers(plan, shape), room = register_room(plan);
      if (kept > room || !shape.unrolled)
        return illegal("form", to_text(s.form),
                       fmt::format("a part of {} elements takes {} vector registers, {} has room for {}", plan.part_elements, kept,
                                   to_text(plan.target), room));
      s.block_bytes = HostSchedule{}.block_bytes;
      shape.groups_per_block = 1;
      shape.rows_per_block = 1;
      break;
    }
    case HostForm::pipe: {
      if (plan.parts_per_group != 1)
        return illegal("form", "pipe", "needs heads and seed heads of one size: the gate or the statistic spans several parts");
      const std::int64_t wanted = std::max<std::int64_t>(shape.tile_parts, s.block_bytes / group_bytes);
      shape.groups_per_block =
          static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::min(wanted, kMaxBlockParts))));
      shape.rows_per_block = 1;
      s.block_bytes = shape.groups_per_block * group_bytes;
      break;
    }
    case HostForm::split: {
      if (plan.parts_per_group > kMaxGroupParts) return too_many_parts(plan, kMaxGroupParts);
      const std::int64_t most = std::max<std::int64_t>(1, kMaxBlockParts / plan.parts_per_group);
      const std::int64_t wanted = std::clamp<std::int64_t>(s.block_bytes / group_bytes, 1, most);
      if (wanted >= plan.groups_per_row) {
        shape.groups_per_block = plan.groups_per_row;
        shape.rows_per_block = wanted / plan.groups_per_row;
      } else {
        const std::int64_t tile_groups = std::max<std::int64_t>(1, shape.tile_parts / plan.parts_per_group);
        shape.groups_per_block = std::min(std::max(wanted / tile_groups, std::int64_t{1}) * tile_groups, plan.groups_per_row);
        shape.rows_per_block = 1;
      }
      s.block_bytes = shape.groups_per_block * shape.rows_per_block * group_bytes;
      break;
    }
  }
  if (s.form != HostForm::pipe) s.chunk_lines = HostSchedule{}.chunk_lines;
  if (s.prefetch == Prefetch::none) {
    s.prefetch_at = HostSchedule{}.prefetch_at;
    s.prefetch_bytes = 0;
  } else if (s.form != HostForm::split) {
    s.prefetch_at = PrefetchAt::read;  // one loop does both sweeps
  }
  if (s.rsqrt == RsqrtForm::newton && !plan.target.has_avx512())
    return illegal("rsqrt", "newton", fmt::format("{} has no estimate of 14 bits; it needs x86-64-v4", to_text(plan.target)));
  if (s.store == StoreKind::nt) {
    HEADNORM_CHECK(check_streaming(plan, shape));
    shape.y_alignment = 1;
    for (Operand operand : {Operand::y, Operand::residual_out}) {
      if (has_operand(spec, operand))
        shape.y_alignment = std::max(
            shape.y_alignment, plan.target.streaming_alignment(shape.line_elements * size_bytes(operand_dtype(spec, operand))));
    }
  } else {
    shape.y_alignment = 1;
  }
  plan.schedule = s;
  plan.shape = shape;
  return {};
}

Result<void> check_gpu_fields(const GpuSchedule& s) {
  if (!is_power_of_two(s.lanes) || s.lanes > kMaxBlockThreads)
    return illegal("lanes", fmt::to_string(s.lanes), "must be a power of two of at most 1024");
  if (!is_power_of_two(s.vector_elements) || s.vector_elements > 16)
    return illegal("vector", fmt::to_string(s.vector_elements), "must be 1, 2, 4, 8 or 16 elements");
  if (s.block_threads < 32 || s.block_threads > kMaxBlockThreads || s.block_threads % 32 != 0)
    return illegal("block", fmt::to_string(s.block_threads), "must be a multiple of 32 from 32 to 1024 threads");
  if (!is_power_of_two(s.access_bytes) || s.access_bytes < 2 || s.access_bytes > kMaxAccessBytes)
    return illegal("access", fmt::to_string(s.access_bytes), "must be 2, 4, 8 or 16 bytes");
  return {};
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

// Floats of shared memory that a reduction over heads or seed heads takes.
int partial_sums(const Plan& plan, const GpuPlan& shape, std::int64_t parts) {
  const GpuReduction& reduction = parts > 1 ? shape.over_group : shape.over_part;
  if (reduction.partials == 1) return 0;
  return static_cast<int>(shape.groups_per_block * (parts > 1 ? 1 : plan.parts_per_group) * reduction.partials);
}

Result<void> check_registers(const GpuPlan& shape) {
  const std::int64_t kept = shape.chunks * shape.vector_elements;
  const std::int64_t room = std::min(kMaxRegisterElements, kRegisterFile / shape.block_threads - kWorkRegisters);
  if (kept <= room) return {};
  return illegal("residency", "registers",
                 fmt::format("a lane would keep {} elements, at most {} fit with {} threads in a block; use more lanes, a smaller "
                             "block or residency=reload",
                             kept, room, shape.block_threads));
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

// The lanes and vector of the schedule that needs no tuning: what decides the order of sums.
GpuSchedule default_order(const KernelSpec& spec, std::int64_t part_elements, std::int64_t parts_per_group) {
  GpuSchedule s;
  s.vector_elements = kMaxAccessBytes / size_bytes(spec.x_dtype);
  while (part_elements % s.vector_elements != 0) s.vector_elements /= 2;
  s.lanes = default_lanes(part_elements, s.vector_elements, size_bytes(spec.x_dtype), kMaxBlockThreads / parts_per_group);
  return s;
}

Result<void> check_gpu_order(const GpuSchedule& s, const GpuSchedule& fixed) {
  if (s.lanes != fixed.lanes) return fixed_by_mode("lanes", fmt::to_string(s.lanes), fmt::to_string(fixed.lanes));
  if (s.vector_elements != fixed.vector_elements)
    return fixed_by_mode("vector", fmt::to_string(s.vector_elements), fmt::to_string(fixed.vector_elements));
  return {};
}

Result<void> plan_gpu(Plan& plan) {
  GpuSchedule s = plan.gpu_schedule();
  HEADNORM_CHECK(check_gpu_fields(s));
  if (s.lanes > 1 && static_cast<std::int64_t>(s.lanes) / 2 * s.vector_elements >= plan.part_elements)
    return illegal(
        "lanes", fmt::to_string(s.lanes),
        fmt::format("half of the lanes with {} elements each already cover a part of {}", s.vector_elements, plan.part_elements));
  if (plan.parts_per_group > kMaxBlockThreads) return too_many_parts(plan, kMaxBlockThreads);
  if (plan.spec.mode == Mode::batch_invariant)
    HEADNORM_CHECK(check_gpu_order(s, default_order(plan.spec, plan.part_elements, plan.parts_per_group)));
  const std::int64_t group_threads = plan.parts_per_group * s.lanes;
  if (group_threads > kMaxBlockThreads)
    return illegal("lanes", fmt::to_string(s.lanes),
                   fmt::format("a group of {} parts takes {} threads, a block has at most {}", plan.parts_per_group, group_threads,
                               kMaxBlockThreads));

  GpuPlan shape;
  shape.lanes = s.lanes;
  shape.vector_elements = s.vector_elements;
  const std::int64_t step = static_cast<std::int64_t>(s.lanes) * s.vector_elements;
  shape.chunks = (plan.part_elements + step - 1) / step;
  shape.exact = plan.part_elements % step == 0;
  shape.groups_per_block = static_cast<int>(std::max<std::int64_t>(1, s.block_threads / group_threads));
  shape.block_threads = static_cast<int>((shape.groups_per_block * group_threads + 31) / 32 * 32);
  s.block_threads = shape.block_threads;
  if (plan.part_elements / step < 2) s.residency = Residency::registers;  // nothing to loop over
  if (s.residency == Residency::registers) HEADNORM_CHECK(check_registers(shape));
  s.access_bytes = shape.access_bytes = canonical_access(plan, s);

  shape.over_part = reduction_over(s.lanes);
  shape.over_group = reduction_over(group_threads);
  shape.shared_bytes = 4 * partial_sums(plan, shape, plan.parts_per_head);
  if (plan.spec.has_gate()) shape.shared_bytes += 4 * partial_sums(plan, shape, plan.parts_per_seed);
  shape.max_rows_per_launch = kMaxGrid / plan.groups_per_row * shape.groups_per_block;
  plan.schedule = s;
  plan.shape = shape;
  return {};
}

}  // namespace

Result<Plan> make_plan(const KernelSpec& spec, const Schedule& schedule, const Target& target) {
  HEADNORM_TRY(const KernelSpec canonical, make_spec(spec));
  Plan plan;
  plan.spec = canonical;
  plan.schedule = schedule;
  plan.target = target;
  const std::int64_t head = canonical.head_size;
  const std::int64_t seed = canonical.has_gate() ? canonical.width / canonical.seed_heads : head;
  plan.part_elements = std::min(head, seed);
  plan.parts_per_group = std::max(head, seed) / plan.part_elements;
  plan.groups_per_row = canonical.width / std::max(head, seed);
  plan.parts_per_head = head / plan.part_elements;
  plan.parts_per_seed = seed / plan.part_elements;

  const bool host = target.kind == TargetKind::host;
  if (host != std::holds_alternative<HostSchedule>(schedule))
    return user_error(fmt::format("schedule '{}' is not for target {}", to_text(schedule), to_text(target)),
                      host ? "give a host schedule (form=...)" : "give a GPU schedule (lanes=...)");
  HEADNORM_CHECK(host ? plan_host(plan) : plan_gpu(plan));
  return plan;
}

namespace {

Schedule default_host_schedule(const KernelSpec& spec, const Target& target) {
  HostSchedule s;
  const std::int64_t seed = spec.has_gate() ? spec.width / spec.seed_heads : spec.head_size;
  s.heads = default_heads(std::min(spec.head_size, seed), target);
  s.prefetch = Prefetch::t1;
  s.prefetch_bytes = 16384;
  if (!make_plan(spec, s, target).ok()) s.store = StoreKind::plain;
  return s;
}

Schedule default_gpu_schedule(const KernelSpec& spec, const Target& target) {
  const std::int64_t seed = spec.has_gate() ? spec.width / spec.seed_heads : spec.head_size;
  const std::int64_t part = std::min(spec.head_size, seed);
  const std::int64_t parts_per_group = std::max(spec.head_size, seed) / part;
  GpuSchedule s = default_order(spec, part, parts_per_group);
  s.block_threads = 128;
  if (!make_plan(spec, s, target).ok()) s.residency = Residency::reload;
  return s;
}

}  // namespace

Schedule default_schedule(const KernelSpec& spec, const Target& target) {
  const Schedule schedule =
      target.kind == TargetKind::host ? default_host_schedule(spec, target) : default_gpu_schedule(spec, target);
  const Result<Plan> plan = make_plan(spec, schedule, target);
  return plan.ok() ? plan->schedule : schedule;
}

int operand_access_bytes(const Plan& plan, Operand operand) {
  const Dtype dtype = operand_dtype(plan.spec, operand);
  // A weight per head is read one element at a time.
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::head) return size_bytes(dtype);
  const int widest = widest_access(plan.part_elements, plan.gpu().vector_elements, dtype);
  return std::max(std::min(plan.gpu().access_bytes, widest), size_bytes(dtype));
}

Schedule unaligned_schedule(const Plan& plan) {
  Schedule schedule = plan.schedule;
  if (auto* host = std::get_if<HostSchedule>(&schedule)) host->store = StoreKind::plain;
  if (auto* gpu = std::get_if<GpuSchedule>(&schedule)) gpu->access_bytes = 2;
  return schedule;
}

Traffic minimum_traffic(const KernelSpec& spec) {
  Traffic traffic;
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand)) continue;
    const std::int64_t bytes = operand_elements(spec, operand) * size_bytes(operand_dtype(spec, operand));
    if (!is_row_operand(operand))
      traffic.weight_bytes += bytes;
    else if (is_output(operand))
      traffic.written_bytes_per_row += bytes;
    else
      traffic.read_bytes_per_row += bytes;
  }
  return traffic;
}

}  // namespace headnorm
