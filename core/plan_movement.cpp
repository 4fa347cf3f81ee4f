// Rules and derived numbers of GPU schedules that concern how rows move: clusters, staging, cache hints and dependent launches.
#include <fmt/format.h>

#include "core/plan_rules.h"

namespace headnorm {

using plan_rules::illegal;
using plan_rules::is_power_of_two;

namespace {

constexpr int kMaxCluster = 16;
constexpr int kMaxStages = 8;
constexpr int kBulkBytes = 16;  // that addresses and lengths of bulk copies are multiples of
constexpr int kAsyncBytes = 4;  // of the narrowest asynchronous copy
constexpr int kBarrierBytes = 8;
constexpr int kStageAlign = 16;  // of the widest copy to shared memory

// A value that needs instructions which the target does not have.
Error not_on(const Target& target, const std::string& field, const std::string& value, const std::string& needed) {
  return user_error(
      fmt::format("schedule {}={}: {} does not have the instructions; they need {}", field, value, to_text(target), needed),
      fmt::format("use a target that has them, or leave {} out", field));
}

Result<void> check_stage_accesses(const Plan& plan, const GpuPlan& shape, Staging staging) {
  const int least = staging == Staging::bulk ? kBulkBytes : kAsyncBytes;
  for (Operand operand : {Operand::x, Operand::residual}) {
    if (!has_operand(plan.spec, operand)) continue;
    const int access = plan_rules::access_of(plan, shape, operand);
    if (access < least)
      return illegal("staging", to_text(staging),
                     fmt::format("copies at least {} bytes at a time, and accesses of {} are {} bytes wide; use more access or "
                                 "vector, or staging=none",
                                 least, to_text(operand), access));
  }
  return {};
}

std::int64_t room_bytes(const Plan& plan, const GpuPlan& shape, Operand operand) {
  if (!has_operand(plan.spec, operand)) return 0;
  const std::int64_t parts = shape.block_threads / shape.lanes;  // those past the last have room of their own
  const std::int64_t bytes = parts * shape.block_part_elements() * size_bytes(operand_dtype(plan.spec, operand));
  return (bytes + kStageAlign - 1) / kStageAlign * kStageAlign;
}

}  // namespace

Result<void> plan_rules::check_movement_fields(const GpuSchedule& s, const Target& target) {
  if (!is_power_of_two(s.cluster) || s.cluster > kMaxCluster)
    return illegal("cluster", fmt::to_string(s.cluster), "must be 1, 2, 4, 8 or 16 blocks");
  if (s.cluster > 1 && !target.has_clusters())
    return not_on(target, "cluster", fmt::to_string(s.cluster), "sm_90 or later and PTX 7.8, e.g. --target sm_90");
  if (s.cluster > s.lanes)
    return illegal("cluster", fmt::to_string(s.cluster),
                   fmt::format("is more than the {} lanes of a part in a block, each of which hands a sum to one block", s.lanes));
  if (s.staging == Staging::bulk && !target.has_bulk_copies())
    return not_on(target, "staging", "bulk", "sm_90 or later and PTX 8.0, e.g. --target sm_90+ptx80");
  if (s.stages < 0 || s.stages > kMaxStages)
    return illegal("stages", fmt::to_string(s.stages), "must be 0 (2 with a persistent grid, else 1) to 8 tiles");
  if (s.cache == CacheUse::stream && !target.has_cache_policies())
    return not_on(target, "cache", "stream", fmt::format("PTX 7.4, e.g. --target sm_{}+ptx74", target.sm));
  if (s.launch != LaunchForm::plain && !target.has_dependent_launch())
    return not_on(target, "launch", to_text(s.launch), "sm_90 or later and PTX 7.8, e.g. --target sm_90");
  return {};
}

Result<void> plan_rules::plan_staging(const Plan& plan, GpuSchedule& s, GpuPlan& shape) {
  if (s.staging == Staging::none) {
    s.stages = 0;
    return {};
  }
  HEADNORM_CHECK(check_stage_accesses(plan, shape, s.staging));
  if (s.residency == Residency::reload)
    return illegal("residency", "reload", "reads rows from memory again; with staging they wait in shared memory: use shared");
  if (s.staging == Staging::bulk && s.cluster > 1 && plan.part_elements < shape.chunk_elements())
    return illegal(
        "staging", "bulk",
        fmt::format("needs a share of the part for every block of the cluster: {} elements are less than one step of {}; "
                    "use a smaller cluster, fewer lanes or staging=async",
                    plan.part_elements, shape.chunk_elements()));
  if (s.grid == GridForm::once) s.stages = 1;  // a block has one tile
  if (s.stages == 0) s.stages = 2;
  if (s.grid == GridForm::persistent && s.stages == 1)
    return illegal("stages", "1", "leaves no room for the next tile while one is in work; a persistent grid needs 2 or more");
  shape.stages = s.stages;
  if (s.staging == Staging::bulk)
    shape.shared_bytes = (shape.shared_bytes + kBarrierBytes - 1) / kBarrierBytes * kBarrierBytes + kBarrierBytes * s.stages;
  const std::int64_t bytes = room_bytes(plan, shape, Operand::x) + room_bytes(plan, shape, Operand::residual);
  const std::int64_t needed = shape.shared_bytes + s.stages * bytes;
  if (needed > plan.target.max_shared_bytes())
    return illegal("staging", to_text(s.staging),
                   fmt::format("{} stages of {} bytes are more than the {} bytes of shared memory of {}; use fewer stages, groups "
                               "or rows, more cluster, or staging=none",
                               s.stages, bytes, plan.target.max_shared_bytes(), to_text(plan.target)));
  shape.stage_bytes = static_cast<int>(bytes);
  shape.dynamic_shared_bytes = static_cast<int>(s.stages * bytes);
  return {};
}

LaunchForm plan_rules::canonical_launch(const GpuSchedule& s, const GpuPlan& shape) {
  if (s.launch != LaunchForm::weights_ahead) return s.launch;
  const bool reads_ahead = s.weights == WeightLoad::before && (s.grid == GridForm::once || shape.weights_stay);
  return reads_ahead ? LaunchForm::weights_ahead : LaunchForm::dependent;
}

std::int64_t stage_offset(const Plan& plan, Operand operand) {
  return operand == Operand::residual ? room_bytes(plan, plan.gpu(), Operand::x) : 0;
}

}  // namespace headnorm
