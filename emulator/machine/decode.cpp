#include "emulator/machine/decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/machine/context.h"
#include "emulator/machine/decoding.h"

namespace headnorm::emulator {
namespace {

constexpr std::uint64_t kArrayGap = 16;  // red zone between shared arrays

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

class Program {
 public:
  Program(const ptx::Module& module, const ptx::Kernel& kernel, const Symbols& symbols) : module_(module) {
    builder_.kernel.source = kernel;
    builder_.kernel.slot_count = static_cast<Slot>(kernel.registers.size());
    for (const auto& [name, address] : symbols) builder_.symbols[name] = {Space::global, address};
  }

  Outcome<Kernel> run() {
    place_parameters();
    place_variables();
    for (std::size_t i = 0; i < kernel().source.code.size(); ++i) {
      Decoding decoding(builder_, kernel().source.code[i]);
      decode(decoding);
      if (decoding.failed()) return Failure{decoding.failure()};
      kernel().code.back().source = static_cast<std::uint32_t>(i);
    }
    return std::move(builder_.kernel);
  }

 private:
  Kernel& kernel() { return builder_.kernel; }

  void place_parameters() {
    for (const ptx::Variable& parameter : kernel().source.parameters) {
      const std::uint64_t offset = round_up(kernel().parameter_bytes, parameter.align);
      kernel().parameters.push_back({offset, parameter.bytes, parameter.align});
      kernel().parameter_bytes = offset + parameter.bytes;
      builder_.symbols[parameter.name] = {Space::param, offset};
    }
  }

  bool is_named(const std::string& name) {
    for (const ptx::Instruction& instruction : kernel().source.code) {
      for (const ptx::Operand& operand : instruction.operands) {
        if (operand.name == name) return true;
      }
    }
    return false;
  }

  void place_shared(const ptx::Variable& variable, std::uint64_t& emulated) {
    kernel().shared_bytes = round_up(kernel().shared_bytes, variable.align) + variable.bytes;
    const std::uint64_t offset = round_up(emulated, variable.align);
    kernel().shared_arrays.push_back({offset, variable.bytes});
    builder_.symbols[variable.name] = {Space::shared, offset};
    emulated = offset + variable.bytes + kArrayGap;
  }

  void place_variables() {
    std::vector<const ptx::Variable*> dynamic;
    std::uint64_t emulated = 0;
    auto place = [&](const ptx::Variable& variable) {
      if (variable.is_dynamic) {
        dynamic.push_back(&variable);
      } else if (variable.space == Space::shared) {
        place_shared(variable, emulated);
      } else if (variable.space == Space::local) {
        const std::uint64_t offset = round_up(kernel().local_bytes, std::max<std::uint64_t>(variable.align, 16));
        builder_.symbols[variable.name] = {Space::local, offset};
        kernel().local_bytes = offset + variable.bytes + kArrayGap;
      }
    };
    for (const ptx::Variable& variable : module_.variables) {
      if (variable.space == Space::shared && is_named(variable.name)) place(variable);
    }
    for (const ptx::Variable& variable : kernel().source.variables) place(variable);
    for (const ptx::Variable* variable : dynamic)
      kernel().dynamic_shared_align = std::max(kernel().dynamic_shared_align, variable->align);
    kernel().dynamic_shared_at = round_up(emulated, kernel().dynamic_shared_align);
    for (const ptx::Variable* variable : dynamic) builder_.symbols[variable->name] = {Space::shared, kernel().dynamic_shared_at};
  }

  void decode(Decoding& decoding) {
    const std::string& base = decoding.source().base;
    if (base == "bra" || base == "brx") {
      decode_branch(decoding);
    } else {
      const Decoder decoder = find(base);
      if (decoder == nullptr) return decoding.fail(fmt::format("instruction '{}' is not known", base));
      decoder(decoding);
    }
    kernel().code.push_back(decoding.finish());
  }

  static Decoder find(std::string_view base) {
    for (const DecoderTable* table :
         {&integer_decoders(), &real_decoders(), &convert_decoders(), &move_decoders(), &memory_decoders(), &control_decoders(),
          &exchange_decoders(), &atomic_decoders(), &mbarrier_decoders(), &copy_decoders()}) {
      if (const auto found = table->find(base); found != table->end()) return found->second;
    }
    return nullptr;
  }

  // The label that a name means in a scope, or null.
  const ptx::Label* find_label(const std::string& name, int scope) {
    for (; scope >= 0; scope = kernel().source.scope_parents[static_cast<std::size_t>(scope)]) {
      for (const ptx::Label& label : kernel().source.labels) {
        if (label.name == name && label.scope == scope) return &label;
      }
    }
    return nullptr;
  }

  void decode_branch(Decoding& decoding) {
    decoding.op.kind = headnorm::emulator::Kind::branch;
    decoding.take("uni");
    const bool is_table = decoding.source().base == "brx";
    if (is_table && !decoding.take("idx")) decoding.fail("brx without .idx");
    decoding.expect_operands(is_table ? 2 : 1, is_table ? 2 : 1);
    const ptx::Operand& operand = decoding.operand(is_table ? 1 : 0);
    const ptx::Label* label = find_label(operand.name, operand.scope);
    if (label == nullptr) return decoding.fail(fmt::format("there is no label '{}'", operand.name));
    if (!is_table) {
      decoding.op.target = static_cast<std::uint32_t>(label->at);
      decoding.op.run = &run_branch;
      return;
    }
    decoding.op.from[0] = decoding.read(0, Type::u32);
    decoding.op.immediate = kernel().targets.size();
    std::vector<std::uint32_t> targets;
    for (const std::string& name : label->targets) {
      const ptx::Label* target = find_label(name, label->scope);
      if (target == nullptr) return decoding.fail(fmt::format("there is no label '{}'", name));
      targets.push_back(static_cast<std::uint32_t>(target->at));
    }
    kernel().targets.push_back(std::move(targets));
    decoding.op.run = &run_branch_table;
  }

  static void go_to(Context& context, std::uint32_t lanes, std::uint32_t target) {
    Group& group = context.warp.groups[context.group];
    group.lanes &= ~lanes;
    context.warp.groups.push_back({Group::State::ready, target, lanes, 0});
  }

  static Step run_branch(Context& context, const Operation& operation, std::uint32_t mask) {
    Group& group = context.warp.groups[context.group];
    if (mask == group.lanes) {
      group.at = operation.target;
    } else {
      ++group.at;
      go_to(context, mask, operation.target);
    }
    return Step::jump;
  }

  static Step run_branch_table(Context& context, const Operation& operation, std::uint32_t mask) {
    const std::vector<std::uint32_t>& targets = context.launch.kernel.targets[operation.immediate];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const std::uint32_t index = context.word(operation.from[0], lane);
      if (index >= targets.size())
        return context.fail(operation, lane, Rule::in_bounds, std::nullopt, fmt::format("branch {} of {}", index, targets.size()));
      go_to(context, std::uint32_t{1} << lane, targets[index]);
    }
    ++context.warp.groups[context.group].at;
    return Step::jump;
  }

  const ptx::Module& module_;
  KernelBuilder builder_;
};

}  // namespace

Outcome<Kernel> decode_kernel(const ptx::Module& module, const ptx::Kernel& kernel, const Symbols& symbols) {
  return Program(module, kernel, symbols).run();
}

}  // namespace headnorm::emulator
