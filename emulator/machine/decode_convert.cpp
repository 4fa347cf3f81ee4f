// Decoding of cvt.
#include "emulator/machine/convert.h"
#include "emulator/machine/decoding.h"
#include "emulator/machine/lanes.h"
#include "emulator/machine/type_dispatch.h"

namespace headnorm::emulator {
namespace {

// ---- frequent ones, as lane functions ----
float f32_from_f16(Half value) { return canonical(wide(value)); }
float f32_from_bf16(Brain value) { return canonical(wide(value)); }
Half f16_from_f32(float value) { return narrow<Half>(value); }
Brain bf16_from_f32(float value) { return narrow<Brain>(value); }
Half2 f16x2_from_f32(float high, float low) { return {narrow<Half>(low), narrow<Half>(high)}; }
Brain2 bf16x2_from_f32(float high, float low) { return {narrow<Brain>(low), narrow<Brain>(high)}; }

template <class To, class From>
To widened(From value) {
  return static_cast<To>(value);
}

// ---- all, by a description in the operation ----
// options: to, from, rounding, flags; immediate: bytes of the result's register.
constexpr std::uint8_t kRoundsToInteger = 1, kFlushes = 2, kSaturates = 4, kRelu = 8, kFinite = 16;

Conversion unpack(const Operation& operation) {
  const std::uint8_t flags = operation.options[3];
  Conversion conversion;
  conversion.to = static_cast<Type>(operation.options[0]);
  conversion.from = static_cast<Type>(operation.options[1]);
  conversion.rounding = static_cast<Rounding>(operation.options[2]);
  conversion.rounds_to_integer = (flags & kRoundsToInteger) != 0;
  conversion.flushes = (flags & kFlushes) != 0;
  conversion.saturates = (flags & kSaturates) != 0;
  conversion.is_relu = (flags & kRelu) != 0;
  conversion.is_finite = (flags & kFinite) != 0;
  return conversion;
}

std::uint64_t lane_value(const Context& context, Slot slot, std::uint32_t lane, int register_bytes) {
  return register_bytes > 4 ? context.wide(slot, lane) : context.word(slot, lane);
}

void set_lane_value(const Context& context, Slot slot, std::uint32_t lane, std::uint64_t register_bytes, std::uint64_t value) {
  if (register_bytes > 4) return context.set_wide(slot, lane, value);
  context.set_word(slot, lane, static_cast<std::uint32_t>(register_bytes == 4 ? value : value & 0xffff));
}

Step run_convert(Context& context, const Operation& operation, std::uint32_t mask) {
  const Conversion conversion = unpack(operation);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    std::uint64_t bits = lane_value(context, operation.from[0], lane, operation.element_bytes);
    const int from_bytes = size_bytes(conversion.from);
    if (from_bytes < 8) bits &= (std::uint64_t{1} << (8 * from_bytes)) - 1;
    set_lane_value(context, operation.to, lane, operation.immediate, convert(conversion, bits));
  }
  return Step::advance;
}

// Two reals to one register, the first in the upper half; `format` by its number in operation.immediate.
constexpr const Format* kFormats[] = {&kF16, &kBf16, &kE4m3, &kE5m2, &kTf32};
enum FormatNumber : std::uint8_t { kNumberF16, kNumberBf16, kNumberE4m3, kNumberE5m2, kNumberTf32 };

Step run_pack(Context& context, const Operation& operation, std::uint32_t mask) {
  const Conversion conversion = unpack(operation);
  const Format& format = *kFormats[operation.immediate];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint32_t high = convert_to(conversion, format, f32_of_bits(context.word(operation.from[0], lane)));
    const std::uint32_t low = convert_to(conversion, format, f32_of_bits(context.word(operation.from[1], lane)));
    context.set_word(operation.to, lane, high << (format.sign_bit + 1) | low);
  }
  return Step::advance;
}

Step run_tf32(Context& context, const Operation& operation, std::uint32_t mask) {
  const Conversion conversion = unpack(operation);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    context.set_word(operation.to, lane, convert_to(conversion, kTf32, f32_of_bits(context.word(operation.from[0], lane))) << 13);
  }
  return Step::advance;
}

// Two halves to two of 8 bits.
Step run_narrow_pair(Context& context, const Operation& operation, std::uint32_t mask) {
  const Conversion conversion = unpack(operation);
  const Format& format = *kFormats[operation.immediate];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint32_t pair = context.word(operation.from[0], lane);
    const auto one = [&](std::uint32_t bits) {
      return convert_to(conversion, format, f32_of_f16(static_cast<std::uint16_t>(bits)));
    };
    context.set_word(operation.to, lane, one(pair >> 16) << 8 | one(pair & 0xffff));
  }
  return Step::advance;
}

// Two of 8 bits to two halves.
Step run_widen_pair(Context& context, const Operation& operation, std::uint32_t mask) {
  const Conversion conversion = unpack(operation);
  const Format& format = *kFormats[operation.immediate];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint32_t pair = context.word(operation.from[0], lane);
    const auto one = [&](std::uint32_t bits) { return convert_to(conversion, kF16, value_of(bits, format)); };
    context.set_word(operation.to, lane, one(pair >> 8 & 255) << 16 | one(pair & 255));
  }
  return Step::advance;
}

struct Modes {
  std::optional<Rounding> rounding;
  std::uint8_t flags = 0;
};

Modes take_modes(Decoding& d) {
  struct Row {
    std::string_view name;
    Rounding rounding;
    bool to_integer;
  };
  constexpr Row kRows[] = {
      {"rn", Rounding::nearest_even, false}, {"rz", Rounding::zero, false},          {"rm", Rounding::down, false},
      {"rp", Rounding::up, false},           {"rna", Rounding::nearest_away, false}, {"rni", Rounding::nearest_even, true},
      {"rzi", Rounding::zero, true},         {"rmi", Rounding::down, true},          {"rpi", Rounding::up, true}};
  Modes modes;
  for (const Row& row : kRows) {
    if (!d.take(row.name)) continue;
    modes.rounding = row.rounding;
    if (row.to_integer) modes.flags |= kRoundsToInteger;
    break;
  }
  if (d.take("ftz")) modes.flags |= kFlushes;
  if (d.take("sat")) modes.flags |= kSaturates;
  if (d.take("relu")) modes.flags |= kRelu;
  if (d.take("satfinite")) modes.flags |= kFinite;
  return modes;
}

void set_options(Decoding& d, Type to, Type from, const Modes& modes) {
  d.op.options = {static_cast<std::uint8_t>(to), static_cast<std::uint8_t>(from),
                  static_cast<std::uint8_t>(modes.rounding.value_or(Rounding::nearest_even)), modes.flags};
}

Run frequent(Type to, Type from, const Modes& modes, std::size_t to_bytes, std::size_t from_bytes) {
  if (modes.flags != 0 || (modes.rounding && *modes.rounding != Rounding::nearest_even)) return nullptr;
  if (to == Type::f32 && from == Type::f16) return lanes_of<&f32_from_f16>();
  if (to == Type::f32 && from == Type::bf16) return lanes_of<&f32_from_bf16>();
  if (to == Type::f16 && from == Type::f32) return lanes_of<&f16_from_f32>();
  if (to == Type::bf16 && from == Type::f32) return lanes_of<&bf16_from_f32>();
  if (!is_integer(to) || !is_integer(from) || to_bytes != static_cast<std::size_t>(size_bytes(to)) ||
      from_bytes != static_cast<std::size_t>(size_bytes(from)))
    return nullptr;
  Run run = nullptr;
  const Type target = to_bytes == 8 ? Type::u64 : to_bytes == 4 ? Type::u32 : Type::u16;
  if (to_bytes < 2 || from_bytes < 2) return nullptr;
  for_integer(target, [&]<class To>() { for_integer(from, [&]<class From>() { run = lanes_of<&widened<To, From>>(); }); });
  return run;
}

bool needs_rounding(Type to, Type from) {
  if (is_integer(from)) return !is_integer(to);
  return is_integer(to) || size_bytes(to) < size_bytes(from);
}

bool is_scalar(Type type) {
  return is_integer(type) || type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64;
}

void convert_scalar(Decoding& d, Type to, const Modes& modes) {
  const Type from = d.type();
  if (!is_scalar(to) || !is_scalar(from)) return d.fail("the conversion is not supported");
  if (needs_rounding(to, from) && !modes.rounding) return d.fail("the conversion needs a rounding");
  d.expect_operands(2, 2);
  d.op.to = d.write_relaxed(d.operand(0), to);
  d.op.from[0] = d.read_relaxed(d.operand(1), from);
  const int to_bytes = d.register_bytes(d.operand(0), to), from_bytes = d.register_bytes(d.operand(1), from);
  d.op.run = frequent(to, from, modes, static_cast<std::size_t>(to_bytes), static_cast<std::size_t>(from_bytes));
  if (d.op.run != nullptr) return;
  d.op.run = &run_convert;
  set_options(d, to, from, modes);
  d.op.immediate = static_cast<std::uint64_t>(to_bytes);
  d.op.element_bytes = static_cast<std::uint8_t>(from_bytes);
}

void convert_pair(Decoding& d, Type to, const Modes& modes) {
  if (!modes.rounding) return d.fail("the conversion needs a rounding");
  d.op.to = d.write(0, to);
  const std::string_view narrow = d.take_any({"e4m3x2", "e5m2x2"});
  set_options(d, to, Type::f32, modes);
  if (!narrow.empty()) {
    d.expect_operands(2, 2);
    d.op.from[0] = d.read(1, Type::b16);
    d.op.immediate = narrow == "e4m3x2" ? kNumberE4m3 : kNumberE5m2;
    d.op.run = &run_widen_pair;
    if (to != Type::f16x2) d.fail("the conversion is not supported");
    return;
  }
  if (d.type() != Type::f32) return d.fail("the conversion is not supported");
  d.expect_operands(3, 3);
  d.op.from[0] = d.read(1, Type::f32);
  d.op.from[1] = d.read(2, Type::f32);
  d.op.immediate = to == Type::f16x2 ? kNumberF16 : kNumberBf16;
  d.op.run = &run_pack;
  if (modes.flags == 0 && *modes.rounding == Rounding::nearest_even)
    d.op.run = to == Type::f16x2 ? lanes_of<&f16x2_from_f32>() : lanes_of<&bf16x2_from_f32>();
}

// To two of 8 bits.
void convert_to_bytes(Decoding& d, FormatNumber format, const Modes& modes) {
  if ((modes.flags & kFinite) == 0) return d.fail("the conversion needs .satfinite");
  const Type from = d.type();
  d.op.to = d.write(0, Type::b16);
  d.op.immediate = format;
  set_options(d, Type::b16, from, modes);
  if (from == Type::f16x2) {
    d.expect_operands(2, 2);
    d.op.from[0] = d.read(1, from);
    d.op.run = &run_narrow_pair;
    return;
  }
  if (from != Type::f32) return d.fail("the conversion is not supported");
  d.expect_operands(3, 3);
  d.op.from[0] = d.read(1, from);
  d.op.from[1] = d.read(2, from);
  d.op.run = &run_pack;
}

void convert_to_tf32(Decoding& d, const Modes& modes) {
  if (!modes.rounding || d.type() != Type::f32) return d.fail("the conversion is not supported");
  d.expect_operands(2, 2);
  d.op.to = d.write(0, Type::b32);
  d.op.from[0] = d.read(1, Type::f32);
  set_options(d, Type::b32, Type::f32, modes);
  d.op.run = &run_tf32;
}

// cvt.pack.sat.s8.s32.b32 d, a, b, c: two integers, narrowed, below the lower bits of c.
Step run_pack_integers(Context& context, const Operation& operation, std::uint32_t mask) {
  Conversion conversion = unpack(operation);
  const int bits = 8 * size_bytes(conversion.to);
  const std::uint32_t field = (std::uint32_t{1} << bits) - 1;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const auto one = [&](Slot slot) { return static_cast<std::uint32_t>(convert(conversion, context.word(slot, lane))) & field; };
    const std::uint64_t upper = operation.from[2] == kNoSlot ? 0 : context.word(operation.from[2], lane);
    const std::uint64_t packed = upper << (2 * bits) | one(operation.from[0]) << bits | one(operation.from[1]);
    context.set_word(operation.to, lane, static_cast<std::uint32_t>(packed));
  }
  return Step::advance;
}

void convert_pack(Decoding& d) {
  Modes modes;
  if (d.take("sat")) modes.flags = kSaturates;
  const Type to = d.type(), from = d.type();
  const bool has_upper = d.take("b32");
  if (modes.flags == 0 || from != Type::s32 || size_bytes(to) > 2) return d.fail("the conversion is not supported");
  d.expect_operands(has_upper ? 4 : 3, has_upper ? 4 : 3);
  d.op.to = d.write(0, Type::b32);
  d.op.from[0] = d.read(1, from);
  d.op.from[1] = d.read(2, from);
  if (has_upper) d.op.from[2] = d.read(3, Type::b32);
  set_options(d, to, from, modes);
  d.op.run = &run_pack_integers;
}

void cvt(Decoding& d) {
  d.op.kind = Kind::convert;
  if (d.take("pack")) return convert_pack(d);
  const Modes modes = take_modes(d);
  if (d.source().modifiers.empty()) return d.fail("cvt names no types");
  if (d.take("tf32")) return convert_to_tf32(d, modes);
  for (const std::string& modifier : d.source().modifiers) {  // the first type is the result's
    if (modifier == "e4m3x2" || modifier == "e5m2x2") {
      d.take(modifier);
      return convert_to_bytes(d, modifier == "e4m3x2" ? kNumberE4m3 : kNumberE5m2, modes);
    }
    if (ptx::parse_type(modifier)) break;
  }
  const Type to = d.type();
  if (to == Type::f16x2 || to == Type::bf16x2) return convert_pair(d, to, modes);
  convert_scalar(d, to, modes);
}

}  // namespace

const DecoderTable& convert_decoders() {
  static const DecoderTable kTable = {{"cvt", cvt}};
  return kTable;
}

}  // namespace headnorm::emulator
