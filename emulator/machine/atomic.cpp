// atom and red: decoding and running.
#include "emulator/machine/atomic.h"

#include "emulator/machine/alu.h"
#include "emulator/machine/lanes.h"
#include "emulator/machine/memory_forms.h"

namespace headnorm::emulator {
namespace {

template <class T>
T apply_integer(Atomic atomic, T old, T b, T c) {
  switch (atomic) {
    case Atomic::add:
      return alu::add<T>(old, b);
    case Atomic::min:
      return std::min(old, b);
    case Atomic::max:
      return std::max(old, b);
    case Atomic::bit_and:
      return old & b;
    case Atomic::bit_or:
      return old | b;
    case Atomic::bit_xor:
      return old ^ b;
    case Atomic::exchange:
      return b;
    case Atomic::compare:
      return old == b ? c : old;
    case Atomic::increment:
      return old >= b ? T{0} : alu::add<T>(old, 1);
    case Atomic::decrement:
      return old == 0 || old > b ? b : alu::sub<T>(old, 1);
  }
  return old;
}

template <class T>
T apply_real(Atomic atomic, T old, T b) {
  using alu::Flush;
  using alu::NanRule;
  if (atomic == Atomic::min) return alu::fmin_of<Flush::no, NanRule::other, T>(old, b);
  if (atomic == Atomic::max) return alu::fmax_of<Flush::no, NanRule::other, T>(old, b);
  return alu::fadd<Flush::no, alu::Saturate::no, T>(old, b);
}

template <class T>
std::uint64_t apply_real_bits(Atomic atomic, std::uint64_t old, std::uint64_t b) {
  return to_storage<T>(
      apply_real<T>(atomic, from_storage<T>(static_cast<Storage<T>>(old)), from_storage<T>(static_cast<Storage<T>>(b))));
}

template <class T>
std::uint64_t apply_pair_bits(Atomic atomic, std::uint64_t old, std::uint64_t b) {
  const std::uint64_t low = apply_real_bits<T>(atomic, old & 0xffff, b & 0xffff);
  return apply_real_bits<T>(atomic, old >> 16 & 0xffff, b >> 16 & 0xffff) << 16 | low;
}

// list: results (of atom), then first and second operands; options: [1] operation, [2] type, [3] results.
Step run_atomic(Context& context, const Operation& operation, std::uint32_t mask) {
  std::uint64_t addresses[kLanes];
  lane_addresses(context, operation.addresses[0], addresses);
  const std::uint32_t bytes = operation.element_bytes, elements = operation.elements;
  AccessRequest request{operation.space, 0, bytes * elements, Access::write, Strength::strong, true};
  const Slot* slots = context.launch.kernel.slots.data() + operation.list.first;
  const Slot* b = slots + operation.options[3];
  const Slot* c = operation.list.count > operation.options[3] + elements ? b + elements : nullptr;
  auto value = [&](Slot slot, std::uint32_t lane) { return bytes == 8 ? context.wide(slot, lane) : context.word(slot, lane); };
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    request.address = addresses[lane];
    std::uint8_t* at = access_bytes(context, operation, lane, request);
    if (at == nullptr) return Step::fault;
    for (std::uint32_t i = 0; i < elements; ++i) {
      std::uint64_t old = 0;
      std::memcpy(&old, at + i * bytes, bytes);
      const std::uint64_t third = c == nullptr ? 0 : value(c[i], lane);
      const std::uint64_t result =
          apply(static_cast<Atomic>(operation.options[1]), static_cast<Type>(operation.options[2]), old, value(b[i], lane), third);
      std::memcpy(at + i * bytes, &result, bytes);
      if (operation.options[3] == 0 || slots[i] == kNoSlot) continue;
      if (bytes == 8) {
        context.set_wide(slots[i], lane, old);
      } else {
        context.set_word(slots[i], lane, static_cast<std::uint32_t>(old));
      }
    }
  }
  ++context.launch.progress;
  count_access(context, operation.space, addresses, request.bytes, mask, Access::read);
  count_access(context, operation.space, addresses, request.bytes, mask, Access::write);
  return Step::advance;
}

std::vector<ptx::Operand> items_of(const ptx::Operand& operand) {
  return operand.kind == ptx::Operand::Kind::list ? operand.items : std::vector<ptx::Operand>{operand};
}

bool is_supported(Atomic atomic, Type type) {
  const bool is_real = type >= Type::f16 && type <= Type::f64 && type != Type::f32x2;
  const bool is_bits = type == Type::b32 || type == Type::b64;
  const bool is_bitwise = atomic >= Atomic::bit_and && atomic <= Atomic::compare;
  if (is_bitwise) return is_bits;
  if (is_real) return atomic == Atomic::add || atomic == Atomic::min || atomic == Atomic::max;
  if (atomic == Atomic::increment || atomic == Atomic::decrement) return type == Type::u32;
  return type == Type::u32 || type == Type::s32 || type == Type::u64 || type == Type::s64;
}

void decode_atomic(Decoding& d, std::size_t results) {
  d.op.kind = Kind::atomic;
  take_strength(d);
  d.op.space = take_memory_space(d);
  d.take("noftz");
  const std::size_t hints = d.take("L2::cache_hint") ? 1 : 0;
  d.op.elements = d.take("v2") ? 2 : d.take("v4") ? 4 : d.take("v8") ? 8 : 1;
  Atomic atomic{};
  if (!take_atomic(d, atomic)) return d.fail("the atomic operation is not known");
  const Type type = d.type();
  if (!is_supported(atomic, type)) return d.fail("the atomic operation is not supported for this type");
  d.op.element_bytes = static_cast<std::uint8_t>(size_bytes(type));
  const std::size_t sources = atomic == Atomic::compare ? 2 : 1;
  d.expect_operands(results + 1 + sources + hints, results + 1 + sources + hints);
  d.address(results, 0);
  std::vector<Slot> slots;
  if (results != 0) {
    for (const ptx::Operand& item : items_of(d.operand(0))) slots.push_back(d.write(item, type));
  }
  for (std::size_t i = 0; i < sources; ++i) {
    for (const ptx::Operand& item : items_of(d.operand(results + 1 + i))) slots.push_back(d.read(item, type));
  }
  if (hints != 0) d.read(results + 1 + sources, Type::b64);
  if (slots.size() != (results + sources) * d.op.elements) return d.fail("the number of values is not the vector's");
  d.op.list = d.add_range(slots);
  d.op.options[1] = static_cast<std::uint8_t>(atomic);
  d.op.options[2] = static_cast<std::uint8_t>(type);
  d.op.options[3] = static_cast<std::uint8_t>(results * d.op.elements);
  d.op.run = &run_atomic;
}

void atom(Decoding& d) { decode_atomic(d, 1); }
void red(Decoding& d) { decode_atomic(d, 0); }

}  // namespace

std::uint64_t apply(Atomic atomic, Type type, std::uint64_t old, std::uint64_t b, std::uint64_t c) {
  switch (type) {
    case Type::f32:
      return apply_real_bits<float>(atomic, old, b);
    case Type::f64:
      return apply_real_bits<double>(atomic, old, b);
    case Type::f16:
      return apply_real_bits<Half>(atomic, old, b);
    case Type::bf16:
      return apply_real_bits<Brain>(atomic, old, b);
    case Type::f16x2:
      return apply_pair_bits<Half>(atomic, old, b);
    case Type::bf16x2:
      return apply_pair_bits<Brain>(atomic, old, b);
    case Type::s32:
      return static_cast<std::uint32_t>(
          apply_integer<std::int32_t>(atomic, static_cast<std::int32_t>(old), static_cast<std::int32_t>(b), 0));
    case Type::s64:
      return static_cast<std::uint64_t>(
          apply_integer<std::int64_t>(atomic, static_cast<std::int64_t>(old), static_cast<std::int64_t>(b), 0));
    case Type::u64:
    case Type::b64:
      return apply_integer<std::uint64_t>(atomic, old, b, c);
    default:
      return apply_integer<std::uint32_t>(atomic, static_cast<std::uint32_t>(old), static_cast<std::uint32_t>(b),
                                          static_cast<std::uint32_t>(c));
  }
}

bool take_atomic(Decoding& d, Atomic& atomic) {
  constexpr std::string_view kNames[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (!d.take(kNames[i])) continue;
    atomic = static_cast<Atomic>(i);
    return true;
  }
  return false;
}

const DecoderTable& atomic_decoders() {
  static const DecoderTable kTable = {{"atom", atom}, {"red", red}};
  return kTable;
}

}  // namespace headnorm::emulator
