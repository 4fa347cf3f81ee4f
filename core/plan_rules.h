// The pieces of make_plan: plan.cpp has the rules of host schedules, plan_gpu.cpp and plan_movement.cpp those of GPU schedules. For
// these files alone.
#pragma once

#include <string>

#include "core/plan.h"

namespace headnorm::plan_rules {

inline bool is_power_of_two(std::int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

// f32 values of an element that stay between sweeps: u, and for the store of its sum beside its scaled form in mode safe-range.
inline int kept_values(const KernelSpec& spec) { return spec.mode == Mode::safe_range && spec.has_residual() ? 2 : 1; }

// A field of a schedule that breaks a rule.
Error illegal(std::string field, std::string value, std::string rule);
// Mode batch-invariant: fields that decide the order of sums or the form of an operation have one legal value, that of the schedule
// which needs no tuning.
Error fixed_by_mode(std::string field, std::string value, std::string fixed);
// No schedule helps: a sum of the spec spans more parts than the target takes.
Error too_many_parts(const Plan& plan, std::int64_t most);

// Completes a plan that has spec, schedule, target and partitions: canonical schedule and shape.
Result<void> plan_gpu(Plan& plan);
// Bytes of the widest access of `operand`, as operand_access_bytes.
int access_of(const Plan& plan, const GpuPlan& shape, Operand operand);
// plan_movement.cpp: rules of cluster, staging, cache and launch; then, with the sums' shared memory known, the stages. The fields
// of `s` that decide them are canonical afterwards.
Result<void> check_movement_fields(const GpuSchedule& s, const Target& target);
Result<void> plan_staging(const Plan& plan, GpuSchedule& s, GpuPlan& shape);
LaunchForm canonical_launch(const GpuSchedule& s, const GpuPlan& shape);
// Registers of a thread; `shape` is complete but for them.
int estimate_registers(const Plan& plan, const GpuPlan& shape);
Schedule default_gpu_schedule(const KernelSpec& spec, const Target& target);

}  // namespace headnorm::plan_rules
