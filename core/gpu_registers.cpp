// An estimate of the registers that an assembler gives a thread: what the kernel keeps and loads, with factors fitted to what ptxas
// 13.0 reports for the plans of the tests, which hold its error (docs/schedules.md).
#include <algorithm>

#include "core/plan_rules.h"

namespace headnorm {

using plan_rules::kept_values;

namespace {

// Registers that an element of `operand` takes as it stands in memory: a narrow access takes a whole one.
double raw_registers(const Plan& plan, const GpuPlan& shape, Operand operand) {
  if (!has_operand(plan.spec, operand)) return 0;
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::head) return 0;
  const int bytes = size_bytes(operand_dtype(plan.spec, operand));
  const int access = plan_rules::access_of(plan, shape, operand);
  return std::max(1.0, access / 4.0) * bytes / access;
}

// Registers of an element as a lane loads or keeps it.
struct Element {
  double u = 0, beta = 0, later = 0;  // x and residual; beta; gamma and alpha
  double kept = 0;                    // u in shared memory
};

Element element_registers(const Plan& plan, const GpuPlan& shape) {
  const auto raw = [&](Operand operand) { return raw_registers(plan, shape, operand); };
  const double kept = std::max(shape.kept_bytes / 4.0, shape.kept_bytes > 0 ? 1.0 / shape.vector_elements : 0);
  return {raw(Operand::x) + raw(Operand::residual), raw(Operand::beta), raw(Operand::gamma) + raw(Operand::alpha), kept};
}

double straight_code(const Plan& plan, const GpuPlan& shape, const Element& element) {
  const double batch = shape.unroll * shape.vector_elements, all = static_cast<double>(shape.chunks * shape.vector_elements);
  double registers = 0.8 * kept_values(plan.spec) * all + 0.35 * batch - 0.5 * batch * element.later;
  // u stays rounded, too, to be stored.
  if (plan.spec.has_residual() && size_bytes(plan.spec.residual_dtype) == 2 && plan.spec.norm_input == NormInput::rounded)
    registers += 0.9 * all / std::min(shape.vector_elements, 2);
  if (plan.gpu_schedule().weights == WeightLoad::before)
    return registers + 1.35 * all * (element.later + (shape.weights_stay || plan.spec.mode == Mode::safe_range ? element.beta : 0));
  return registers + 1.1 * std::min(all * element.later, 200.0);
}

double loops(const Plan& plan, const GpuPlan& shape, const Element& element) {
  const double batch = shape.unroll * shape.vector_elements;
  const double again = plan.gpu_schedule().residency == Residency::reload ? element.u : element.kept;
  return 5 + 0.7 * batch + 0.5 * batch * std::max(element.u + element.beta, element.later + again) + (plan.spec.has_gate() ? 8 : 0);
}

// Partial sums that a thread has loaded when it adds them.
int loaded_partials(const Plan& plan, const GpuPlan& shape) {
  constexpr int kMost = 16;
  const auto of = [&](std::int64_t parts) {
    const GpuReduction& reduction = parts > 1 ? shape.over_group : shape.over_part;
    return reduction.partials > 1 && reduction.unrolled() ? reduction.partials : 0;
  };
  const int loaded = of(plan.parts_per_head) + (plan.spec.has_gate() ? of(plan.parts_per_seed) : 0);
  return loaded <= kMost ? loaded : 0;
}

}  // namespace

int plan_rules::estimate_registers(const Plan& plan, const GpuPlan& shape) {
  const KernelSpec& spec = plan.spec;
  const Element element = element_registers(plan, shape);
  const bool is_persistent = plan.gpu_schedule().grid == GridForm::persistent;
  const bool is_straight = plan.gpu_schedule().residency == Residency::registers;
  double registers = 13 + (is_straight ? straight_code(plan, shape, element) : loops(plan, shape, element));
  registers += (shape.cluster > 1 ? 4 : 0) + (shape.stages > 0 ? 6 : 0);
  registers += (spec.has_gate() ? 3 : 0) + (spec.has_residual() ? 6 : 0) + (is_persistent ? 9 : 0) + (shape.exact ? 0 : 3);
  if (const int partials = loaded_partials(plan, shape); partials > 0)
    registers = std::max(registers, 14.0 + partials + (is_persistent ? 8 : 0) + (spec.has_gate() ? 4 : 0));
  const int most = std::min(255, 65536 / shape.block_threads / 8 * 8);
  return std::clamp(static_cast<int>(registers + 0.5), 16, most);
}

}  // namespace headnorm
