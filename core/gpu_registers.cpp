// An estimate of the registers that an assembler gives a thread: what the kernel keeps and loads, with factors fitted to what ptxas
// 13.0 reports for the plans of the tests, which hold its error (docs/schedules.md).
#include <algorithm>

#include "core/cluster.h"
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

bool is_persistent(const Plan& plan) { return plan.gpu_schedule().grid == GridForm::persistent; }

// Registers of an element as a lane loads or keeps it.
struct Element {
  double u = 0, beta = 0, later = 0;  // x and residual; beta; gamma and alpha
  double again = 0;                   // u as a later loop reads it
};

Element element_registers(const Plan& plan, const GpuPlan& shape) {
  const auto raw = [&](Operand operand) { return raw_registers(plan, shape, operand); };
  const double u = raw(Operand::x) + raw(Operand::residual);
  const double kept = std::max(shape.kept_bytes / 4.0, 1.0 / shape.vector_elements);
  return {u, raw(Operand::beta), raw(Operand::gamma) + raw(Operand::alpha), shape.kept_bytes > 0 ? kept : u};
}

// Weights that are read behind the sums come early, ahead of the stores of other chunks: all of them through the read-only cache,
// else only as far as the compiler sees that no store can change them, which in a loop over tiles is the batch.
double weights_behind(const Plan& plan, const Element& element, double all, double batch) {
  if (plan.gpu_schedule().launch != LaunchForm::dependent) return 0.79 * std::min(all * element.later, 200.0);
  return 0.57 * (is_persistent(plan) ? batch : all) * element.later;
}

// Every element has a register, and what is loaded beside it little more. Elements past the end of a part that one lane has do not
// count: the compiler drops them.
double straight_code(const Plan& plan, const GpuPlan& shape, const Element& element) {
  const double part = static_cast<double>(plan.part_elements);
  const double all = std::min(static_cast<double>(shape.chunks * shape.vector_elements), part);
  const double batch = std::min(static_cast<double>(shape.unroll * shape.vector_elements), all);
  double registers = 1.14 * kept_values(plan.spec) * all - 0.26 * batch;
  // u stays rounded, too, to be stored.
  if (plan.spec.has_residual() && size_bytes(plan.spec.residual_dtype) == 2 && plan.spec.norm_input == NormInput::rounded)
    registers += 0.65 * all / std::min(shape.vector_elements, 2);
  // Assemblers for sm_90 and later keep more of the addresses from tile to tile; the policies of the cache are pairs.
  if (is_persistent(plan))
    registers += (plan.target.sm >= 90 ? 8.4 : 0) + (plan.gpu_schedule().cache == CacheUse::stream ? 2.4 : 0);
  if (plan.gpu_schedule().weights == WeightLoad::after) return registers + weights_behind(plan, element, all, batch);
  return registers + 1.02 * all * (element.later + (shape.weights_stay || plan.spec.mode == Mode::safe_range ? element.beta : 0));
}

// Partial sums that a thread has loaded when it adds them.
int loaded_partials(const Plan& plan, const GpuPlan& shape) {
  constexpr int kMost = 16;
  const auto of = [&](std::int64_t parts) {
    const GpuReduction& reduction = parts > 1 ? shape.over_group : shape.over_part;
    return reduction.partials > 1 && adds_in_straight_code(shape, reduction) ? reduction.partials : 0;
  };
  const int loaded = of(plan.parts_per_head) + (plan.spec.has_gate() ? of(plan.parts_per_seed) : 0);
  return loaded <= kMost ? loaded : 0;
}

// A batch, its addresses, and what the straight code behind a loop adds where the last chunk is not whole. Of a large batch only a
// part is under way at a time.
double loops(const Plan& plan, const GpuPlan& shape, const Element& element) {
  constexpr int kMostUnderWay = 64;
  const double batch = std::min(shape.unroll * shape.vector_elements, kMostUnderWay);
  double registers = 0.64 * batch * (1 + std::max(element.u + element.beta, element.later + element.again));
  registers += (plan.spec.has_residual() ? 1.7 : 0) + (shape.exact ? 0 : 7.6);
  return registers + (is_persistent(plan) ? 4.7 + (loaded_partials(plan, shape) > 0 ? 2.7 : 0) : 0);
}

// Clusters, copies, and what a persistent grid takes along from tile to tile: addresses of many tensors, stages, ranks.
double movement(const Plan& plan, const GpuPlan& shape) {
  const double registers = (shape.cluster > 1 ? 3.4 : 0) - (plan.gpu_schedule().staging == Staging::bulk ? 6.4 : 0);
  if (!is_persistent(plan)) return registers;
  const bool has_all_tensors = plan.spec.has_gate() && plan.spec.residual == Residual::add;
  return registers + (plan.spec.has_gate() ? 3.1 : 0) + (has_all_tensors ? 1.7 : 0) + (shape.stages > 0 ? 4 : 0) +
         (shape.cluster > 1 ? 0.42 * shape.cluster : 0);
}

}  // namespace

int plan_rules::estimate_registers(const Plan& plan, const GpuPlan& shape) {
  const KernelSpec& spec = plan.spec;
  const Element element = element_registers(plan, shape);
  const bool is_straight = plan.gpu_schedule().residency == Residency::registers;
  double registers = 16.5 + (is_straight ? straight_code(plan, shape, element) : loops(plan, shape, element));
  registers += movement(plan, shape) + (spec.has_residual() ? 3.7 : 0) + (spec.has_gate() ? 4.4 : 0);
  if (const int partials = loaded_partials(plan, shape); partials > 0)
    registers = std::max(registers, 14.0 + partials + (is_persistent(plan) ? 8 : 0) + (spec.has_gate() ? 4 : 0));
  const int most = std::min(255, 65536 / shape.block_threads / 8 * 8);
  return std::clamp(static_cast<int>(registers + 0.5), 16, most);
}

}  // namespace headnorm
