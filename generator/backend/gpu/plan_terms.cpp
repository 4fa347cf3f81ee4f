#include "generator/backend/gpu/plan_terms.h"

#include <numeric>

namespace headnorm::gpu {

using program::Domain;
using program::Instruction;
using program::Op;
using program::Program;
using program::ValueId;

int granule_elements(const Plan& plan) {
  return static_cast<int>(std::gcd(plan.part_elements, static_cast<std::int64_t>(plan.gpu().vector_elements)));
}

bool is_over_group(const Plan& plan, Domain domain) {
  return (domain == Domain::head ? plan.parts_per_head : plan.parts_per_seed) > 1;
}

const GpuReduction& reduction_of(const Plan& plan, Domain domain) {
  return is_over_group(plan, domain) ? plan.gpu().over_group : plan.gpu().over_part;
}

std::int64_t partitions(const Plan& plan, Domain domain) {
  return plan.gpu().groups_per_block() * (is_over_group(plan, domain) ? 1 : plan.parts_per_group);
}

bool is_packed(const Plan& plan, const Program& program, ValueId id) {
  const auto at = [&](ValueId value) -> const Instruction& { return program.instructions[static_cast<std::size_t>(value)]; };
  const Instruction& instruction = at(id);
  if (!plan.gpu().packed || instruction.domain != Domain::element) return false;
  if (instruction.op == Op::mul || instruction.op == Op::fma) return true;
  if (instruction.op != Op::add) return false;
  const Instruction &a = at(instruction.arguments[0]), &b = at(instruction.arguments[1]);
  // No rounding to f32, which does nothing, stands between a product and its sum: the builder records none.
  if (a.op == Op::mul || b.op == Op::mul) return false;
  return a.op != Op::load || b.op != Op::load || (a.dtype != Dtype::f16 && b.dtype != Dtype::f16);
}

}  // namespace headnorm::gpu
