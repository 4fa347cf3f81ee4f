#include "generator/backend/cuda_c/expression.h"

#include <fmt/format.h>

namespace headnorm::cuda_c {

using program::Instruction;
using program::Op;

std::string type_name(Dtype dtype) { return dtype == Dtype::f32 ? "float" : to_text(dtype); }

std::string literal(double value) {
  std::string text = fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string render_operation(const Instruction& instruction, const ArgumentText& argument) {
  const auto a = [&](std::size_t i) { return argument(instruction.arguments[i]); };
  const auto& [low, high] = instruction.immediates;
  switch (instruction.op) {
    case Op::constant:
      return literal(low);
    case Op::add:
      return fmt::format("__fadd_rn({}, {})", a(0), a(1));
    case Op::sub:
      return fmt::format("__fsub_rn({}, {})", a(0), a(1));
    case Op::mul:
      return fmt::format("__fmul_rn({}, {})", a(0), a(1));
    case Op::div:
      return fmt::format("__fdiv_rn({}, {})", a(0), a(1));
    case Op::fma:
      return fmt::format("__fmaf_rn({}, {}, {})", a(0), a(1), a(2));
    case Op::abs:
      return fmt::format("fabsf({})", a(0));
    case Op::clamp:
      return fmt::format("clamp({}, {}, {})", a(0), literal(low), literal(high));
    case Op::rsqrt:
      return fmt::format("rsqrtf({})", a(0));
    case Op::inverse_power:
      return fmt::format("inverse_power({})", a(0));
    case Op::load:
    case Op::store:
    case Op::round_to:
    case Op::reduce_dot:
    case Op::reduce_max:
      break;  // statements of their own
  }
  return "";
}

std::string render_pair_operation(const Instruction& instruction, const ArgumentText& pair) {
  const auto a = [&](std::size_t i) { return pair(instruction.arguments[i]); };
  if (instruction.op == Op::fma) return fmt::format("fma_pair({}, {}, {})", a(0), a(1), a(2));
  return fmt::format("{}_pair({}, {})", instruction.op == Op::add ? "add" : "mul", a(0), a(1));
}

Formula render_formula(const Instruction& instruction, const ArgumentFormula& argument) {
  // An argument that has to be at least so strong.
  const auto a = [&](std::size_t i, int strength) {
    const Formula formula = argument(instruction.arguments[i]);
    return formula.strength < strength ? "(" + formula.text + ")" : formula.text;
  };
  switch (instruction.op) {
    case Op::constant:
      return {fmt::format("{}", static_cast<float>(instruction.immediates[0]))};
    case Op::add:
      return {fmt::format("{} + {}", a(0, 0), a(1, 0)), 0};
    case Op::sub:
      return {fmt::format("{} - {}", a(0, 0), a(1, 1)), 0};
    case Op::mul:
      return {fmt::format("{} * {}", a(0, 1), a(1, 1)), 1};
    case Op::div:
      return {fmt::format("{} / {}", a(0, 1), a(1, 2)), 1};
    case Op::fma:
      return {fmt::format("{} * {} + {}", a(0, 1), a(1, 1), a(2, 0)), 0};
    case Op::abs:
      return {fmt::format("|{}|", a(0, 0))};
    case Op::rsqrt:
      return {fmt::format("1 / sqrt({})", a(0, 0)), 1};
    case Op::clamp:
      return {fmt::format("{} within [{}, {}]", a(0, 1), static_cast<float>(instruction.immediates[0]),
                          static_cast<float>(instruction.immediates[1])),
              0};
    case Op::inverse_power:
      return {fmt::format("2^-floor(log2({}))", a(0, 0))};
    case Op::reduce_dot:
      return {fmt::format("{} * {}", a(0, 1), a(1, 1)), 1};
    case Op::reduce_max:
      return {fmt::format("max({})", a(0, 0))};
    case Op::load:
    case Op::store:
    case Op::round_to:
      break;
  }
  return {};
}

}  // namespace headnorm::cuda_c
