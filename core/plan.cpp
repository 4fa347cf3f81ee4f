#include "core/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "core/plan_rules.h"

namespace headnorm {

using plan_rules::fixed_by_mode;
using plan_rules::illegal;
using plan_rules::is_power_of_two;
using plan_rules::kept_values;
using plan_rules::too_many_parts;

Error plan_rules::illegal(std::string field, std::string value, std::string rule) {
  return user_error(fmt::format("schedule {}={}: {}", field, value, rule),
                    "choose another value, or leave --schedule out for the default; docs/schedules.md lists the rules");
}

Error plan_rules::too_many_parts(const Plan& plan, std::int64_t most) {
  return user_error(
      fmt::format("a sum over {} parts of {} elements ({} heads, {} seed heads): {} takes at most {} parts", plan.parts_per_group,
                  plan.part_elements, plan.spec.heads(), plan.spec.seed_heads, to_text(plan.target), most),
      "choose heads and seed heads that are nearer in size: a larger --head-size, or more --seed-heads");
}

Error plan_rules::fixed_by_mode(std::string field, std::string value, std::string fixed) {
  return illegal(field, std::move(value), fmt::format("mode batch-invariant fixes {}={}", field, fixed));
}

namespace {

constexpr std::int64_t kWorkRegisters = 6;    // vector registers of a line: what is loaded, weights, scalars
constexpr int kMaxUnrolledLines = 16;         // lines of a part written as straight code
constexpr std::int64_t kMaxTileVectors = 64;  // f32 vectors of a tile of several parts: straight code, too
constexpr int kMaxTileParts = 16;
constexpr std::int64_t kShortPartVectors = 8;           // f32 vectors of a part up to which tiles are the default
constexpr int kMaxTileSums = 16;                        // vectors of partial sums of a tile
constexpr std::int64_t kMaxBlockParts = 256;            // parts of a block whose statistics wait on the stack
constexpr std::int64_t kMaxBlockBytes = kMaxWidth * 4;  // a row, at least
constexpr std::int64_t kMaxGroupParts = 65536;          // their statistics take 256 KiB of stack each

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
std::int64_t register_room(const Plan& plan) { return plan.target.vector_registers() - kWorkRegisters; }

// Short parts spend their time on sums and roots, one of each for every part: a tile shares them.
int default_heads(std::int64_t part_elements, const Target& target) {
  return part_elements * 4 <= kShortPartVectors * target.vector_bytes() ? kMaxTileParts : 1;
}

// Parts side by side: as many as asked for, lowered to what rows, groups, straight code and registers hold.
int tile_parts(const Plan& plan, const HostSchedule& s, int lanes) {
  if (plan.spec.mode == Mode::safe_range) return 1;  // largest elements are found part by part
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

// Vector registers that a tile takes between the sweeps: one per `lanes` elements and value.
std::int64_t kept_registers(const Plan& plan, const HostPlan& shape) {
  return kept_values(plan.spec) * ceil_div(shape.tile_parts * plan.part_elements, shape.lanes);
}

// What the form keeps, the partial sums, and what a line in work takes.
int estimate_registers(const Plan& plan, const HostPlan& shape, HostForm form) {
  const bool keeps = form == HostForm::reg || form == HostForm::rot;
  const int sums = shape.accumulators * shape.tile_parts;
  const std::int64_t wanted = (keeps ? kept_registers(plan, shape) : 0) + sums + kWorkRegisters;
  return static_cast<int>(std::min<std::int64_t>(wanted, plan.target.vector_registers()));
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

std::int64_t group_bytes(const Plan& plan) { return plan.group_elements() * size_bytes(plan.spec.x_dtype); }

// Forms that finish a tile at once.
Result<void> check_one_size(const Plan& plan, const HostSchedule& s) {
  if (plan.parts_per_group == 1) return {};
  return illegal("form", to_text(s.form), "needs heads and seed heads of one size: the gate or the statistic spans several parts");
}

Result<void> plan_reg_or_rot(const Plan& plan, HostSchedule& s, HostPlan& shape) {
  HEADNORM_CHECK(check_one_size(plan, s));
  const std::int64_t kept = kept_registers(plan, shape), room = register_room(plan);
  if (kept > room || !shape.unrolled)
    return illegal("form", to_text(s.form),
                   fmt::format("a part of {} elements takes {} vector registers, {} has room for {}", plan.part_elements, kept,
                               to_text(plan.target), room));
  s.block_bytes = HostSchedule{}.block_bytes;
  shape.groups_per_block = shape.rows_per_block = 1;
  return {};
}

Result<void> plan_pipe(const Plan& plan, HostSchedule& s, HostPlan& shape) {
  HEADNORM_CHECK(check_one_size(plan, s));
  const std::int64_t wanted = std::max<std::int64_t>(shape.tile_parts, s.block_bytes / group_bytes(plan));
  shape.groups_per_block = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::min(wanted, kMaxBlockParts))));
  shape.rows_per_block = 1;
  s.block_bytes = shape.groups_per_block * group_bytes(plan);
  return {};
}

Result<void> plan_split(const Plan& plan, HostSchedule& s, HostPlan& shape) {
  if (plan.parts_per_group > kMaxGroupParts) return too_many_parts(plan, kMaxGroupParts);
  const std::int64_t most = std::max<std::int64_t>(1, kMaxBlockParts / plan.parts_per_group);
  const std::int64_t wanted = std::clamp<std::int64_t>(s.block_bytes / group_bytes(plan), 1, most);
  if (wanted >= plan.groups_per_row) {
    shape.groups_per_block = plan.groups_per_row;
    shape.rows_per_block = wanted / plan.groups_per_row;
  } else {
    const std::int64_t tile_groups = std::max<std::int64_t>(1, shape.tile_parts / plan.parts_per_group);
    shape.groups_per_block = std::min(std::max(wanted / tile_groups, std::int64_t{1}) * tile_groups, plan.groups_per_row);
    shape.rows_per_block = 1;
  }
  s.block_bytes = shape.groups_per_block * shape.rows_per_block * group_bytes(plan);
  return {};
}

Result<void> plan_form(const Plan& plan, HostSchedule& s, HostPlan& shape) {
  if (plan.spec.mode == Mode::safe_range && (s.form == HostForm::rot || s.form == HostForm::pipe))
    return illegal("form", to_text(s.form), "runs two sweeps side by side, mode safe-range has three; take reg or split");
  switch (s.form) {
    case HostForm::reg:
    case HostForm::rot:
      return plan_reg_or_rot(plan, s, shape);
    case HostForm::pipe:
      return plan_pipe(plan, s, shape);
    case HostForm::split:
      return plan_split(plan, s, shape);
  }
  return {};
}

// One value for the fields that have no effect.
void drop_idle_fields(HostSchedule& s) {
  if (s.form != HostForm::pipe) s.chunk_lines = HostSchedule{}.chunk_lines;
  if (s.prefetch == Prefetch::none) {
    s.prefetch_at = HostSchedule{}.prefetch_at;
    s.prefetch_bytes = 0;
  } else if (s.form != HostForm::split) {
    s.prefetch_at = PrefetchAt::read;  // one loop does both sweeps
  }
}

int streaming_alignment(const Plan& plan, const HostPlan& shape) {
  int alignment = 1;
  for (Operand operand : {Operand::y, Operand::residual_out}) {
    if (!has_operand(plan.spec, operand)) continue;
    const int line_bytes = shape.line_elements * size_bytes(operand_dtype(plan.spec, operand));
    alignment = std::max(alignment, plan.target.streaming_alignment(line_bytes));
  }
  return alignment;
}

Result<void> plan_host(Plan& plan) {
  HostSchedule s = plan.host_schedule();
  HEADNORM_CHECK(check_host_fields(s));
  HostPlan shape = plan_lines(plan, s);
  if (plan.spec.mode == Mode::batch_invariant) {
    HostSchedule fixed;
    fixed.heads = default_heads(plan.part_elements, plan.target);
    plan_lines(plan, fixed);
    HEADNORM_CHECK(check_host_order(s, fixed));
  }
  HEADNORM_CHECK(plan_form(plan, s, shape));
  drop_idle_fields(s);
  if (s.rsqrt == RsqrtForm::newton && !plan.target.has_avx512())
    return illegal("rsqrt", "newton", fmt::format("{} has no estimate of 14 bits; it needs x86-64-v4", to_text(plan.target)));
  if (s.store == StoreKind::nt) {
    HEADNORM_CHECK(check_streaming(plan, shape));
    shape.y_alignment = streaming_alignment(plan, shape);
  }
  shape.registers = estimate_registers(plan, shape, s.form);
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
  HEADNORM_CHECK(host ? plan_host(plan) : plan_rules::plan_gpu(plan));
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

}  // namespace

Schedule default_schedule(const KernelSpec& spec, const Target& target) {
  const Schedule schedule =
      target.kind == TargetKind::host ? default_host_schedule(spec, target) : plan_rules::default_gpu_schedule(spec, target);
  const Result<Plan> plan = make_plan(spec, schedule, target);
  return plan.ok() ? plan->schedule : schedule;
}

Schedule unaligned_schedule(const Plan& plan) {
  Schedule schedule = plan.schedule;
  if (auto* host = std::get_if<HostSchedule>(&schedule)) host->store = StoreKind::plain;
  auto* gpu = std::get_if<GpuSchedule>(&schedule);
  if (gpu == nullptr) return schedule;
  gpu->access_bytes = 2;
  gpu->staging = Staging::none;  // whose copies ask for alignment
  gpu->stages = 0;
  const auto is_legal = [&] { return make_plan(plan.spec, schedule, plan.target).ok(); };
  // What is loaded by narrow accesses takes more registers.
  if (gpu->weights == WeightLoad::before && !is_legal()) gpu->weights = WeightLoad::after;
  if (gpu->unroll > 1 && !is_legal()) gpu->unroll = 1;
  // What a stage holds as it stands in memory may take more as u of every thread.
  if (gpu->residency == Residency::shared && !is_legal()) gpu->residency = Residency::reload;
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
