// The decoding of one instruction: its modifiers are taken one by one, its operands become slots; what is left over is an error.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "emulator/machine/kernel.h"

namespace headnorm::emulator {

using ptx::Space;
using ptx::Type;

// The parts of a kernel that instructions refer to and add to.
class KernelBuilder {
 public:
  Slot register_slot(int reg) const { return static_cast<Slot>(reg); }
  Slot constant(std::uint64_t value, int bytes);
  Slot special(const std::string& name);
  SlotRange add_range(const std::vector<Slot>& slots);

  struct Symbol {
    Space space = Space::global;
    std::uint64_t address = 0;
  };
  std::map<std::string, Symbol, std::less<>> symbols;
  Kernel kernel;
};

class Decoding {
 public:
  Decoding(KernelBuilder& builder, const ptx::Instruction& instruction);

  // Modifiers.
  bool take(std::string_view modifier);
  std::string_view take_any(std::initializer_list<std::string_view> modifiers);  // the one that is there, or ""
  std::string_view take_next();                                                  // the first that is left, or ""
  std::optional<Type> take_type();
  Type type();  // takes it; an error where there is none

  // Operands, by number. The width of a register must be the type's; `relaxed` ones may be wider.
  std::size_t operand_count() const { return source_.operands.size(); }
  const ptx::Operand& operand(std::size_t i);
  void expect_operands(std::size_t least, std::size_t most);
  Slot read(std::size_t i, Type type) { return read(operand(i), type); }
  Slot read(const ptx::Operand& operand, Type type);
  Slot write(std::size_t i, Type type) { return write(operand(i), type); }
  Slot write(const ptx::Operand& operand, Type type);  // kNoSlot for _
  Slot read_relaxed(const ptx::Operand& operand, Type type);
  Slot write_relaxed(const ptx::Operand& operand, Type type);
  Slot read_predicate(std::size_t i);
  bool is_negated(std::size_t i) { return operand(i).is_negated; }
  // The register's size; of a constant, the type's.
  int register_bytes(const ptx::Operand& operand, Type type) const;
  bool is_register(const ptx::Operand& operand) const { return operand.kind == ptx::Operand::Kind::reg; }
  void address(std::size_t i, std::size_t number);  // into op.addresses
  std::uint64_t integer(std::size_t i);             // a constant
  // Registers whose being defined is handed on and not asked for.
  Slot pass(const ptx::Operand& operand, Type type);

  Slot constant(std::uint64_t value, int bytes) { return builder_.constant(value, bytes); }
  SlotRange add_range(const std::vector<Slot>& slots) { return builder_.add_range(slots); }
  KernelBuilder& builder() { return builder_; }
  const ptx::Instruction& source() const { return source_; }

  void fail(std::string_view what);
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

  // The operation with what it reads and writes; an error where a modifier is left.
  Operation finish();

  Operation op;

 private:
  enum class Width : std::uint8_t { exact, or_wider };
  Slot check_register(const ptx::Operand& operand, Type type, Width width);
  Slot constant_operand(const ptx::Operand& operand, Type type);

  KernelBuilder& builder_;
  const ptx::Instruction& source_;
  std::vector<std::string_view> modifiers_;
  std::vector<Slot> reads_, writes_;
  std::string failure_;
};

using Decoder = void (*)(Decoding&);
using DecoderTable = std::map<std::string_view, Decoder>;

// By the first word of an instruction.
const DecoderTable& integer_decoders();
const DecoderTable& real_decoders();
const DecoderTable& convert_decoders();
const DecoderTable& move_decoders();
const DecoderTable& memory_decoders();
const DecoderTable& control_decoders();
const DecoderTable& exchange_decoders();
const DecoderTable& atomic_decoders();
const DecoderTable& mbarrier_decoders();
const DecoderTable& copy_decoders();

}  // namespace headnorm::emulator
