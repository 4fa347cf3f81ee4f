#include "generator/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace headnorm::program {

int argument_count(Op op) {
  switch (op) {
    case Op::constant:
    case Op::load:
      return 0;
    case Op::store:
    case Op::abs:
    case Op::clamp:
    case Op::rsqrt:
    case Op::round_to:
    case Op::reduce_max:
    case Op::inverse_power:
      return 1;
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::reduce_dot:
      return 2;
    case Op::fma:
      return 3;
  }
  return 0;
}

bool is_reduction(Op op) { return op == Op::reduce_dot || op == Op::reduce_max; }

const char* to_text(Op op) {
  switch (op) {
    case Op::constant:
      return "constant";
    case Op::load:
      return "load";
    case Op::store:
      return "store";
    case Op::add:
      return "add";
    case Op::sub:
      return "sub";
    case Op::mul:
      return "mul";
    case Op::div:
      return "div";
    case Op::fma:
      return "fma";
    case Op::abs:
      return "abs";
    case Op::clamp:
      return "clamp";
    case Op::rsqrt:
      return "rsqrt";
    case Op::round_to:
      return "round_to";
    case Op::reduce_dot:
      return "reduce_dot";
    case Op::reduce_max:
      return "reduce_max";
    case Op::inverse_power:
      return "inverse_power";
  }
  return "";
}

const char* to_text(Domain domain) {
  switch (domain) {
    case Domain::uniform:
      return "uniform";
    case Domain::seed:
      return "seed";
    case Domain::head:
      return "head";
    case Domain::element:
      return "element";
  }
  return "";
}

namespace {

const Instruction& at(const Program& program, ValueId id) { return program.instructions[static_cast<std::size_t>(id)]; }

std::size_t step_of(const Program& program, ValueId id) {
  std::size_t step = 0;
  while (step < program.steps.size() && id >= program.steps[step].end) ++step;
  return step;
}

Error broken(ValueId id, std::string_view rule) { return internal_error(fmt::format("sweep program: %{}: {}", id, rule)); }

Result<void> verify_steps(const Program& program) {
  ValueId next = 0;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.begin != next || step.end < step.begin) return broken(step.begin, "steps do not cover the instructions in order");
    const StepKind wanted = i % 2 == 0 ? StepKind::sweep : StepKind::scalars;
    if (step.kind != wanted) return broken(step.begin, "sweeps and scalar steps do not alternate");
    next = step.end;
  }
  if (next != static_cast<ValueId>(program.instructions.size())) return broken(next, "instructions after the last step");
  if (program.steps.empty() || program.steps.back().kind != StepKind::sweep) return broken(next, "the last step is not a sweep");
  return {};
}

Result<void> verify_instruction(const Program& program, ValueId id, std::size_t step) {
  const Instruction& instruction = at(program, id);
  const bool in_sweep = program.steps[step].kind == StepKind::sweep;
  Domain widest = Domain::uniform;
  for (int a = 0; a < 3; ++a) {
    const ValueId argument = instruction.arguments[static_cast<std::size_t>(a)];
    if ((argument != kNoValue) != (a < argument_count(instruction.op))) return broken(id, "wrong number of arguments");
    if (argument == kNoValue) continue;
    if (argument < 0 || argument >= id) return broken(id, "an argument is not defined before its use");
    if (at(program, argument).op == Op::store) return broken(id, "a store has no value");
    if (is_reduction(at(program, argument).op) && step_of(program, argument) == step)
      return broken(id, "a reduction is used in its own sweep");
    widest = std::max(widest, at(program, argument).domain);
  }
  if (is_reduction(instruction.op)) {
    if (!in_sweep) return broken(id, "a reduction outside a sweep");
    if (instruction.domain != Domain::head && instruction.domain != Domain::seed)
      return broken(id, "a reduction over no partition");
    if (widest != Domain::element) return broken(id, "a reduction of values that are not per element");
    return {};
  }
  if (instruction.op != Op::load && instruction.op != Op::store && instruction.domain != widest)
    return broken(id, "the domain is not that of the widest argument");
  if (instruction.domain == Domain::element && !in_sweep) return broken(id, "a value per element outside a sweep");
  if ((instruction.op == Op::load || instruction.op == Op::store)) {
    if (!has_operand(program.spec, instruction.operand)) return broken(id, "an operand that the spec does not have");
    if (instruction.dtype != operand_dtype(program.spec, instruction.operand)) return broken(id, "not the operand's dtype");
    if ((instruction.op == Op::store) != is_output(instruction.operand))
      return broken(id, "load of an output or store to an input");
    if (instruction.op == Op::store && step + 1 != program.steps.size()) return broken(id, "a store outside the last sweep");
  }
  return {};
}

}  // namespace

Result<void> verify(const Program& program) {
  HEADNORM_CHECK(verify_steps(program));
  std::map<Operand, int> stores;
  for (std::size_t step = 0; step < program.steps.size(); ++step) {
    for (ValueId id = program.steps[step].begin; id < program.steps[step].end; ++id) {
      HEADNORM_CHECK(verify_instruction(program, id, step));
      if (at(program, id).op == Op::store) ++stores[at(program, id).operand];
    }
  }
  for (Operand operand : kOperands) {
    if (is_output(operand) && has_operand(program.spec, operand) && stores[operand] != 1)
      return internal_error(
          fmt::format("sweep program: {} is stored {} times, not once", headnorm::to_text(operand), stores[operand]));
  }
  return {};
}

std::string print(const Program& program) {
  std::string text = "program " + to_text(program.spec) + "\n";
  for (const Step& step : program.steps) {
    text += step.kind == StepKind::sweep ? "sweep:\n" : "scalars:\n";
    for (ValueId id = step.begin; id < step.end; ++id) {
      const Instruction& instruction = at(program, id);
      std::string line = fmt::format("  %{}", id);
      if (!instruction.name.empty() && instruction.op != Op::load && instruction.op != Op::store) line += " " + instruction.name;
      line += fmt::format(" = {}", to_text(instruction.op));
      if (is_reduction(instruction.op)) line += fmt::format(" {}", to_text(instruction.domain));
      if (instruction.op == Op::load || instruction.op == Op::store)
        line += fmt::format(" {} {}", headnorm::to_text(instruction.operand), headnorm::to_text(instruction.dtype));
      if (instruction.op == Op::round_to) line += fmt::format(" {}", headnorm::to_text(instruction.dtype));
      std::string separator = " ";
      for (ValueId argument : instruction.arguments) {
        if (argument == kNoValue) continue;
        line += fmt::format("{}%{}", separator, argument);
        separator = ", ";
      }
      if (instruction.op == Op::constant) line += fmt::format(" {}", static_cast<float>(instruction.immediates[0]));
      if (instruction.op == Op::clamp) line += fmt::format(", {}, {}", instruction.immediates[0], instruction.immediates[1]);
      text += line + "\n";
    }
  }
  return text;
}

std::vector<ValueId> kept_values(const Program& program, std::size_t sweep) {
  std::vector<ValueId> kept;
  const Step& step = program.steps[sweep];
  for (ValueId id = step.begin; id < step.end; ++id) {
    for (ValueId argument : at(program, id).arguments) {
      if (argument == kNoValue || argument >= step.begin || at(program, argument).domain != Domain::element) continue;
      if (std::find(kept.begin(), kept.end(), argument) == kept.end()) kept.push_back(argument);
    }
  }
  return kept;
}

std::vector<ValueId> values_to_keep(const Program& program, std::size_t sweep) {
  std::vector<ValueId> values;
  const Step& step = program.steps[sweep];
  for (std::size_t later = sweep + 1; later < program.steps.size(); ++later) {
    for (ValueId id : kept_values(program, later)) {
      if (id >= step.begin && id < step.end && std::find(values.begin(), values.end(), id) == values.end()) values.push_back(id);
    }
  }
  return values;
}

Program rematerialise(const Program& program, const std::vector<ValueId>& keep) {
  Program result;
  result.spec = program.spec;
  std::vector<ValueId> renamed(program.instructions.size(), kNoValue);  // latest copy of a value

  for (std::size_t index = 0; index < program.steps.size(); ++index) {
    const Step& step = program.steps[index];
    const auto begin = static_cast<ValueId>(result.instructions.size());
    // Copies of earlier element values are made in this sweep, arguments first.
    auto copy = [&](ValueId id, auto&& self) -> void {
      Instruction instruction = at(program, id);
      for (ValueId& argument : instruction.arguments) {
        if (argument == kNoValue) continue;
        ValueId& latest = renamed[static_cast<std::size_t>(argument)];
        const bool is_kept = latest != kNoValue && std::find(keep.begin(), keep.end(), argument) != keep.end();
        if (at(program, argument).domain == Domain::element && latest < begin && !is_kept) self(argument, self);
        argument = latest;
      }
      result.instructions.push_back(std::move(instruction));
      renamed[static_cast<std::size_t>(id)] = static_cast<ValueId>(result.instructions.size() - 1);
    };
    for (ValueId id = step.begin; id < step.end; ++id) copy(id, copy);
    result.steps.push_back({step.kind, begin, static_cast<ValueId>(result.instructions.size())});
  }
  return result;
}

Program form_of(const Plan& plan, const Program& program) {
  switch (plan.gpu_schedule().residency) {
    case Residency::registers:
      break;
    case Residency::shared:
      if (plan.gpu().stages > 0) return rematerialise(program);  // x and residual are there still
      return rematerialise(program, values_to_keep(program, 0));
    case Residency::reload:
      return rematerialise(program);
  }
  return program;
}

}  // namespace headnorm::program
