#include "generator/program/cost.h"

namespace headnorm::program {

RowCost count_cost(const Program& program) {
  const KernelSpec& spec = program.spec;
  RowCost cost;
  for (const Instruction& instruction : program.instructions) {
    std::int64_t places = 0;
    switch (instruction.domain) {
      case Domain::uniform:
        break;
      case Domain::seed:
        places = spec.seed_heads;
        break;
      case Domain::head:
        places = spec.heads();
        break;
      case Domain::element:
        places = spec.width;
        break;
    }
    switch (instruction.op) {
      case Op::constant:
      case Op::load:
      case Op::store:
      case Op::round_to:
        break;
      case Op::reduce_dot:
        cost.flops += 2 * spec.width;
        cost.reductions += places;
        break;
      case Op::reduce_max:
        cost.flops += spec.width;
        cost.reductions += places;
        break;
      case Op::fma:
      case Op::rsqrt:
        cost.flops += 2 * places;
        break;
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::div:
      case Op::abs:
      case Op::clamp:
      case Op::inverse_power:
        cost.flops += places;
        break;
    }
  }
  return cost;
}

}  // namespace headnorm::program
