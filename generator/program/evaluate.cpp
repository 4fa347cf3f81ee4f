#include "generator/program/evaluate.h"

#include <algorithm>
#include <cmath>

namespace headnorm::program {
namespace {

class Evaluator {
 public:
  Evaluator(const Program& program, const RowInputs& inputs) : program_(program), inputs_(inputs), spec_(program.spec) {
    values_.resize(program.instructions.size());
  }

  RowOutputs run() {
    outputs_.y.resize(static_cast<std::size_t>(spec_.width));
    if (spec_.has_residual()) outputs_.residual_out.resize(static_cast<std::size_t>(spec_.width));
    for (std::size_t id = 0; id < program_.instructions.size(); ++id) evaluate(id);
    return std::move(outputs_);
  }

 private:
  std::size_t count(Domain domain) const {
    switch (domain) {
      case Domain::uniform:
        return 1;
      case Domain::seed:
        return static_cast<std::size_t>(spec_.has_gate() ? spec_.seed_heads : 1);
      case Domain::head:
        return static_cast<std::size_t>(spec_.heads());
      case Domain::element:
        return static_cast<std::size_t>(spec_.width);
    }
    return 1;
  }

  // The value of `id` that belongs to place `i` of a finer domain of `of` places. Domains nest, so that places divide evenly.
  double argument(ValueId id, std::size_t i, std::size_t of) const {
    const std::vector<double>& value = values_[static_cast<std::size_t>(id)];
    return value[i * value.size() / of];
  }

  void evaluate(std::size_t id) {
    const Instruction& instruction = program_.instructions[id];
    std::vector<double>& value = values_[id];
    const std::size_t size = count(instruction.domain);
    if (instruction.op == Op::store) {
      std::vector<double>& output = instruction.operand == Operand::y ? outputs_.y : outputs_.residual_out;
      for (std::size_t i = 0; i < output.size(); ++i) output[i] = argument(instruction.arguments[0], i, output.size());
      return;
    }
    value.assign(size, 0.0);
    if (is_reduction(instruction.op)) {
      const std::size_t elements = count(Domain::element);
      for (std::size_t i = 0; i < elements; ++i) reduce(instruction, i, elements, value[i * size / elements]);
      return;
    }
    for (std::size_t i = 0; i < size; ++i) value[i] = elementwise(instruction, i, size);
  }

  void reduce(const Instruction& instruction, std::size_t i, std::size_t of, double& result) const {
    const double a = argument(instruction.arguments[0], i, of);
    if (instruction.op == Op::reduce_max)
      result = std::max(result, a);
    else
      result += a * argument(instruction.arguments[1], i, of);
  }

  double elementwise(const Instruction& instruction, std::size_t i, std::size_t size) const {
    double a[3] = {0, 0, 0};
    for (int k = 0; k < argument_count(instruction.op); ++k)
      a[k] = argument(instruction.arguments[static_cast<std::size_t>(k)], i, size);
    switch (instruction.op) {
      case Op::constant:
        return instruction.immediates[0];
      case Op::load: {
        const std::vector<double>& input = inputs_[static_cast<std::size_t>(instruction.operand)];
        return input[i % input.size()];  // a shared weight [d] repeats in every head
      }
      case Op::add:
        return a[0] + a[1];
      case Op::sub:
        return a[0] - a[1];
      case Op::mul:
        return a[0] * a[1];
      case Op::div:
        return a[0] / a[1];
      case Op::fma:
        return std::fma(a[0], a[1], a[2]);
      case Op::abs:
        return std::fabs(a[0]);
      case Op::clamp:
        return a[0] < instruction.immediates[0]   ? instruction.immediates[0]
               : a[0] > instruction.immediates[1] ? instruction.immediates[1]
                                                  : a[0];
      case Op::rsqrt:
        return 1.0 / std::sqrt(a[0]);
      case Op::round_to:
        return round_to_dtype(round_to_dtype(a[0], Dtype::f32), instruction.dtype);  // what is rounded is an f32 number
      case Op::inverse_power:
        return std::isfinite(a[0]) ? std::ldexp(1.0, -std::clamp(a[0] == 0 ? -126 : std::ilogb(a[0]), -126, 126)) : 0x1p-126;
      case Op::store:
      case Op::reduce_dot:
      case Op::reduce_max:
        break;
    }
    return 0;
  }

  const Program& program_;
  const RowInputs& inputs_;
  const KernelSpec& spec_;
  std::vector<std::vector<double>> values_;
  RowOutputs outputs_;
};

}  // namespace

RowOutputs evaluate(const Program& program, const RowInputs& inputs) { return Evaluator(program, inputs).run(); }

}  // namespace headnorm::program
