// The pieces of make_plan: plan.cpp has the rules of host schedules, plan_gpu.cpp those of GPU schedules. For these files alone.
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
// Registers of a thread; `shape` is complete but for them.
int estimate_registers(const Plan& plan, const GpuPlan& shape);
Schedule default_gpu_schedule(const KernelSpec& spec, const Target& target);

}  // namespace headnorm::plan_rules
