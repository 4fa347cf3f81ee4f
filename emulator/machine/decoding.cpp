#include "emulator/machine/decoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/machine/context.h"

namespace headnorm::emulator {

using OperandKind = ptx::Operand::Kind;

namespace {

bool is_special(std::string_view name) {
  constexpr std::string_view kVectors[] = {"%tid.",       "%ntid.",       "%ctaid.",         "%nctaid.",
                                           "%clusterid.", "%nclusterid.", "%cluster_ctaid.", "%cluster_nctaid."};
  for (std::string_view vector : kVectors) {
    if (name.starts_with(vector) && name.size() == vector.size() + 1 && name.back() >= 'x' && name.back() <= 'z') return true;
  }
  constexpr std::string_view kSingle[] = {"%laneid",
                                          "%warpid",
                                          "%nwarpid",
                                          "%smid",
                                          "%nsmid",
                                          "%gridid",
                                          "%cluster_ctarank",
                                          "%cluster_nctarank",
                                          "%is_explicit_cluster",
                                          "%dynamic_smem_size",
                                          "%total_smem_size",
                                          "%aggr_smem_size",
                                          "%lanemask_eq",
                                          "%lanemask_lt",
                                          "%lanemask_le",
                                          "%lanemask_gt",
                                          "%lanemask_ge",
                                          "WARP_SZ"};
  return std::find(std::begin(kSingle), std::end(kSingle), name) != std::end(kSingle);
}

}  // namespace

Slot KernelBuilder::constant(std::uint64_t value, int bytes) {
  const bool is_wide = bytes > 4;
  if (bytes < 8) value &= (std::uint64_t{1} << (8 * bytes)) - 1;
  for (const ConstantSlot& known : kernel.constants) {
    if (known.value == value && known.is_wide == is_wide) return known.slot;
  }
  kernel.constants.push_back({value, kernel.slot_count++, is_wide});
  return kernel.constants.back().slot;
}

Slot KernelBuilder::special(const std::string& name) {
  for (const SpecialSlot& known : kernel.specials) {
    if (known.name == name) return known.slot;
  }
  kernel.specials.push_back({name, kernel.slot_count++});
  return kernel.specials.back().slot;
}

SlotRange KernelBuilder::add_range(const std::vector<Slot>& slots) {
  const SlotRange range{static_cast<std::uint32_t>(kernel.slots.size()), static_cast<std::uint32_t>(slots.size())};
  kernel.slots.insert(kernel.slots.end(), slots.begin(), slots.end());
  return range;
}

Decoding::Decoding(KernelBuilder& builder, const ptx::Instruction& instruction)
    : builder_(builder), source_(instruction), modifiers_(instruction.modifiers.begin(), instruction.modifiers.end()) {
  op.used_bytes = instruction.used_bytes;
  if (instruction.guard < 0) return;
  ptx::Operand guard;
  guard.kind = OperandKind::reg;
  guard.reg = instruction.guard;
  op.guard = read(guard, Type::pred);
  op.is_guard_negated = instruction.is_guard_negated;
}

void Decoding::fail(std::string_view what) {
  if (failure_.empty()) failure_ = fmt::format("line {}: '{}': {}", source_.line, source_.text, what);
}

bool Decoding::take(std::string_view modifier) {
  const auto found = std::find(modifiers_.begin(), modifiers_.end(), modifier);
  if (found == modifiers_.end()) return false;
  modifiers_.erase(found);
  return true;
}

std::string_view Decoding::take_any(std::initializer_list<std::string_view> modifiers) {
  for (std::string_view modifier : modifiers) {
    if (take(modifier)) return modifier;
  }
  return {};
}

std::string_view Decoding::take_next() {
  if (modifiers_.empty()) return {};
  const std::string_view first = modifiers_.front();
  modifiers_.erase(modifiers_.begin());
  return first;
}

std::optional<Type> Decoding::take_type() {
  for (auto modifier = modifiers_.begin(); modifier != modifiers_.end(); ++modifier) {
    const std::optional<Type> type = ptx::parse_type(*modifier);
    if (!type) continue;
    modifiers_.erase(modifier);
    return type;
  }
  return std::nullopt;
}

Type Decoding::type() {
  const std::optional<Type> type = take_type();
  if (!type) fail("the instruction names no type");
  return type.value_or(Type::b32);
}

const ptx::Operand& Decoding::operand(std::size_t i) {
  static const ptx::Operand kNone;
  if (i < source_.operands.size()) return source_.operands[i];
  fail("an operand is missing");
  return kNone;
}

void Decoding::expect_operands(std::size_t least, std::size_t most) {
  if (operand_count() < least || operand_count() > most) fail(fmt::format("{} operands are not expected", operand_count()));
}

int Decoding::register_bytes(const ptx::Operand& operand, Type type) const {
  return operand.kind == OperandKind::reg ? size_bytes(builder_.kernel.source.registers[static_cast<std::size_t>(operand.reg)].type)
                                          : size_bytes(type);
}

Slot Decoding::check_register(const ptx::Operand& operand, Type type, Width width) {
  const ptx::Register& reg = builder_.kernel.source.registers[static_cast<std::size_t>(operand.reg)];
  const int has = size_bytes(reg.type), wants = size_bytes(type);
  const bool is_predicate = reg.type == Type::pred, wants_predicate = type == Type::pred;
  if (is_predicate != wants_predicate || (width == Width::exact && has != wants) || has < wants)
    fail(fmt::format("register {} is .{}, which does not fit .{}", reg.name, to_text(reg.type), to_text(type)));
  return builder_.register_slot(operand.reg);
}

Slot Decoding::constant_operand(const ptx::Operand& operand, Type type) {
  const int bytes = size_bytes(type);
  if (operand.kind == OperandKind::integer) {
    if (type == Type::pred) return builder_.constant(operand.value != 0 ? kFullMask : 0, 4);
    if (type == Type::f32 || type == Type::f64) fail("an integer is given where a floating-point number belongs");
    return builder_.constant(operand.value, bytes);
  }
  if (operand.kind == OperandKind::real) {
    std::uint64_t bits = operand.value;
    if (operand.real_bytes == 8 && bytes == 4) bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    if (operand.real_bytes == 4 && type == Type::f64)
      bits = std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
    if (bytes < 4) fail("a floating-point number does not fit the type");
    return builder_.constant(bits, bytes);
  }
  if (is_special(operand.name)) return builder_.special(operand.name);
  if (operand.kind == OperandKind::special) {
    fail(fmt::format("special register or register '{}' is not known", operand.name));
    return kNoSlot;
  }
  if (operand.kind == OperandKind::variable) {
    const auto found = builder_.symbols.find(operand.name);
    if (found != builder_.symbols.end())
      return builder_.constant(found->second.address + static_cast<std::uint64_t>(operand.offset), bytes);
    fail(fmt::format("'{}' is not declared", operand.name));
    return kNoSlot;
  }
  fail("an operand has a form that is not expected here");
  return kNoSlot;
}

Slot Decoding::read(const ptx::Operand& operand, Type type) {
  if (operand.kind != OperandKind::reg) return constant_operand(operand, type);
  const Slot slot = check_register(operand, type, Width::exact);
  reads_.push_back(slot);
  return slot;
}

Slot Decoding::read_relaxed(const ptx::Operand& operand, Type type) {
  if (operand.kind != OperandKind::reg) return constant_operand(operand, type);
  const Slot slot = check_register(operand, type, Width::or_wider);
  reads_.push_back(slot);
  return slot;
}

Slot Decoding::pass(const ptx::Operand& operand, Type type) {
  return operand.kind == OperandKind::reg ? check_register(operand, type, Width::exact) : constant_operand(operand, type);
}

Slot Decoding::write(const ptx::Operand& operand, Type type) {
  if (operand.kind == OperandKind::sink) return kNoSlot;
  if (operand.kind != OperandKind::reg) {
    fail("a result must be a register");
    return kNoSlot;
  }
  writes_.push_back(check_register(operand, type, Width::exact));
  return writes_.back();
}

Slot Decoding::write_relaxed(const ptx::Operand& operand, Type type) {
  if (operand.kind != OperandKind::reg) return write(operand, type);
  writes_.push_back(check_register(operand, type, Width::or_wider));
  return writes_.back();
}

Slot Decoding::read_predicate(std::size_t i) { return read(operand(i), Type::pred); }

void Decoding::address(std::size_t i, std::size_t number) {
  const ptx::Operand& address = operand(i);
  if (address.kind != OperandKind::address) return fail("an address in brackets is expected");
  AddressOperand& result = op.addresses[number];
  result.offset = address.offset;
  result.is_wide = true;
  if (address.reg >= 0) {
    ptx::Operand base;
    base.kind = OperandKind::reg;
    base.reg = address.reg;
    const int bytes = register_bytes(base, Type::b64);
    if (bytes != 4 && bytes != 8) return fail("an address register has 32 or 64 bits");
    result.is_wide = bytes == 8;
    result.base = read(base, bytes == 8 ? Type::b64 : Type::b32);
    return;
  }
  std::uint64_t base = 0;
  if (!address.name.empty()) {
    const auto found = builder_.symbols.find(address.name);
    if (found == builder_.symbols.end()) return fail(fmt::format("'{}' is not declared", address.name));
    base = found->second.address;
  }
  result.base = builder_.constant(base, 8);
}

std::uint64_t Decoding::integer(std::size_t i) {
  if (operand(i).kind != OperandKind::integer) fail("a constant is expected");
  return operand(i).value;
}

Operation Decoding::finish() {
  if (!modifiers_.empty()) fail(fmt::format("modifier '.{}' is not known here", modifiers_.front()));
  std::sort(reads_.begin(), reads_.end());
  reads_.erase(std::unique(reads_.begin(), reads_.end()), reads_.end());
  op.reads = builder_.add_range(reads_);
  op.writes = builder_.add_range(writes_);
  return op;
}

}  // namespace headnorm::emulator
