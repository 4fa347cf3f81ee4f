#include "generator/backend/gpu/plan_terms.h"

namespace headnorm::gpu {

using program::Instruction;
using program::Op;
using program::Program;
using program::ValueId;

bool is_packed(const Plan& plan, const Program& program, ValueId id) {
  const auto at = [&](ValueId value) -> const Instruction& { return program.instructions[static_cast<std::size_t>(value)]; };
  const Instruction& instruction = at(id);
  if (!plan.gpu().packed || instruction.domain != program::Domain::element) return false;
  if (instruction.op == Op::mul || instruction.op == Op::fma) return true;
  if (instruction.op != Op::add) return false;
  const Instruction &a = at(instruction.arguments[0]), &b = at(instruction.arguments[1]);
  if (a.op == Op::mul || b.op == Op::mul) return false;
  return a.op != Op::load || b.op != Op::load || (a.dtype != Dtype::f16 && b.dtype != Dtype::f16);
}

}  // namespace headnorm::gpu
