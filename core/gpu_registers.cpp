// An estimate of the registers that an assembler gives a thread: sums of what the kernel keeps and loads, with factors fitted to
// what ptxas 13.0 reports (docs/schedules.md states the error, and a test holds it).
#include <algorithm>

#include "core/plan_rules.h"

namespace headnorm {
namespace {

// Registers that a lane's elements of `operand` take as they stand in memory, for each element: a narrow access takes a whole one.
double raw_registers(const Plan& plan, const GpuPlan& shape, Operand operand) {
  if (!has_operand(plan.spec, operand)) return 0;
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::head) return 0;
  const int bytes = size_bytes(operand_dtype(plan.spec, operand));
  const int access = plan_rules::access_of(plan, shape, operand);
  return std::max(1.0, access / 4.0) * bytes / access;
}

}  // namespace

int plan_rules::estimate_registers(const Plan& plan, const GpuPlan& shape) {
  const GpuSchedule& s = plan.gpu_schedule();
  const auto raw = [&](Operand operand) { return raw_registers(plan, shape, operand); };
  const double row = raw(Operand::x) + raw(Operand::residual), later = raw(Operand::gamma) + raw(Operand::alpha);
  const bool is_looped = s.residency != Residency::registers;
  const double batch = shape.unroll * shape.vector_elements, all = static_cast<double>(shape.chunks * shape.vector_elements);
  const bool later_beta = shape.weights_stay || plan.spec.mode == Mode::safe_range;

  double registers = 10;
  if (!is_looped) registers += 1.1 * all * kept_values(plan.spec);
  registers += 0.2 * batch * std::max(row + raw(Operand::beta), later + (s.residency == Residency::reload ? row : 0));
  if (s.weights == WeightLoad::before) registers += 0.4 * all * (later + (later_beta ? raw(Operand::beta) : 0));
  if (plan.spec.has_gate()) registers += 5;
  if (plan.spec.has_residual()) registers += 4;
  if (s.grid == GridForm::persistent) registers += 7;
  if (is_looped) registers += 9;
  const int most = std::min(255, 65536 / shape.block_threads / 8 * 8);
  return std::min(most, static_cast<int>(registers + 0.5));
}

}  // namespace headnorm
