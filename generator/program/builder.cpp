#include "generator/program/builder.h"

#include <algorithm>
#include <utility>

namespace headnorm::program {

Value operator+(Value a, Value b) { return a.builder->record(Op::add, {a, b}); }
Value operator-(Value a, Value b) { return a.builder->record(Op::sub, {a, b}); }
Value operator*(Value a, Value b) { return a.builder->record(Op::mul, {a, b}); }
Value operator/(Value a, Value b) { return a.builder->record(Op::div, {a, b}); }
Value operator+(Value a, double b) { return a + a.builder->constant(b); }
Value operator*(Value a, double b) { return a * a.builder->constant(b); }
Value operator/(double a, Value b) { return b.builder->constant(a) / b; }

Builder::Builder(const KernelSpec& spec) { program_.spec = spec; }

void Builder::step(StepKind kind, const std::function<void()>& body) {
  const auto begin = static_cast<ValueId>(program_.instructions.size());
  in_sweep_ = kind == StepKind::sweep;
  body();
  program_.steps.push_back({kind, begin, static_cast<ValueId>(program_.instructions.size())});
}

Value Builder::push(Instruction instruction) {
  program_.instructions.push_back(std::move(instruction));
  return {this, static_cast<ValueId>(program_.instructions.size() - 1)};
}

Value Builder::record(Op op, std::array<Value, 3> arguments) {
  Instruction instruction;
  instruction.op = op;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    instruction.arguments[i] = arguments[i].id;
    if (arguments[i].exists())
      instruction.domain = std::max(instruction.domain, program_.instructions[static_cast<std::size_t>(arguments[i].id)].domain);
  }
  return push(std::move(instruction));
}

Value Builder::constant(double value) {
  Instruction instruction;
  instruction.op = Op::constant;
  instruction.immediates[0] = static_cast<double>(static_cast<float>(value));
  return push(std::move(instruction));
}

Value Builder::load(Operand operand) {
  Instruction instruction;
  instruction.op = Op::load;
  instruction.domain = operand == Operand::gamma && program_.spec.weight == WeightForm::head ? Domain::head : Domain::element;
  instruction.operand = operand;
  instruction.dtype = operand_dtype(program_.spec, operand);
  instruction.name = headnorm::to_text(operand);
  return push(std::move(instruction));
}

void Builder::store(Operand operand, Value value) {
  Instruction instruction;
  instruction.op = Op::store;
  instruction.domain = Domain::element;
  instruction.arguments[0] = value.id;
  instruction.operand = operand;
  instruction.dtype = operand_dtype(program_.spec, operand);
  instruction.name = headnorm::to_text(operand);
  push(std::move(instruction));
}

Value Builder::fma(Value a, Value b, Value c) { return record(Op::fma, {a, b, c}); }
Value Builder::abs(Value a) { return record(Op::abs, {a}); }
Value Builder::rsqrt(Value a) { return record(Op::rsqrt, {a}); }

Value Builder::clamp(Value a, double low, double high) {
  const Value value = record(Op::clamp, {a});
  program_.instructions[static_cast<std::size_t>(value.id)].immediates = {low, high};
  return value;
}

Value Builder::round_to(Value a, Dtype dtype) {
  if (dtype == Dtype::f32) return a;
  const Value value = record(Op::round_to, {a});
  program_.instructions[static_cast<std::size_t>(value.id)].dtype = dtype;
  return value;
}

Value Builder::reduce(Domain partition, Value value) {
  program_.instructions[static_cast<std::size_t>(value.id)].domain = partition;
  return value;
}

Value Builder::reduce_dot(Domain partition, Value a, Value b) { return reduce(partition, record(Op::reduce_dot, {a, b})); }
Value Builder::reduce_max(Domain partition, Value a) { return reduce(partition, record(Op::reduce_max, {a})); }
Value Builder::inverse_power(Value a) { return record(Op::inverse_power, {a}); }

Value Builder::named(std::string name, Value value) {
  program_.instructions[static_cast<std::size_t>(value.id)].name = std::move(name);
  return value;
}

Program Builder::take() { return std::move(program_); }

}  // namespace headnorm::program
