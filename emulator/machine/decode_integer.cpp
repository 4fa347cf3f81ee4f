// Decoding of integer and bit instructions.
#include "emulator/machine/alu.h"
#include "emulator/machine/decoding.h"
#include "emulator/machine/lanes.h"
#include "emulator/machine/type_dispatch.h"

namespace headnorm::emulator {
namespace {

// d, a, b, ... all of one type.
void same_type(Decoding& d, Type type, std::size_t sources) {
  d.op.kind = Kind::integer;
  d.expect_operands(sources + 1, sources + 1);
  d.op.to = d.write(0, type);
  for (std::size_t i = 0; i < sources; ++i) d.op.from[i] = d.read(i + 1, type);
}

#define HEADNORM_INTEGER_DECODER(name, function, sources)                                                                      \
  void name(Decoding& d, Type type) {                                                                                          \
    same_type(d, type, sources);                                                                                               \
    if (!for_integer(type, [&]<class T>() { d.op.run = lanes_of<&alu::function<T>>(); })) d.fail("the type is not supported"); \
  }
HEADNORM_INTEGER_DECODER(add_integer, add, 2)
HEADNORM_INTEGER_DECODER(sub_integer, sub, 2)
HEADNORM_INTEGER_DECODER(div_integer, div, 2)
HEADNORM_INTEGER_DECODER(min_integer, min_integer, 2)
HEADNORM_INTEGER_DECODER(max_integer, max_integer, 2)
HEADNORM_INTEGER_DECODER(abs_integer, abs_integer, 1)
HEADNORM_INTEGER_DECODER(neg_integer, neg_integer, 1)
#undef HEADNORM_INTEGER_DECODER

void rem(Decoding& d) {
  const Type type = d.type();
  same_type(d, type, 2);
  if (!for_integer(type, [&]<class T>() { d.op.run = lanes_of<&alu::rem<T>>(); })) d.fail("the type is not supported");
}

void sad(Decoding& d) {
  const Type type = d.type();
  same_type(d, type, 3);
  if (!for_integer(type, [&]<class T>() { d.op.run = lanes_of<&alu::sad<T>>(); })) d.fail("the type is not supported");
}

Type twice(Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    default:
      return Type::s64;
  }
}

void mul_integer(Decoding& d, Type type) {
  const std::string_view part = d.take_any({"lo", "hi", "wide"});
  if (part.empty()) return d.fail("an integer product is .lo, .hi or .wide");
  if (part != "wide") {
    same_type(d, type, 2);
    const bool is_known = for_integer(
        type, [&]<class T>() { d.op.run = part == "lo" ? lanes_of<&alu::mul_low<T>>() : lanes_of<&alu::mul_high<T>>(); });
    if (!is_known) d.fail("the type is not supported");
    return;
  }
  d.op.kind = Kind::integer;
  d.expect_operands(3, 3);
  d.op.to = d.write(0, twice(type));
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, type);
  if (!for_narrow_integer(type, [&]<class T>() { d.op.run = lanes_of<&alu::mul_wide<T>>(); })) d.fail("the type is not supported");
}

void mad_integer(Decoding& d, Type type) {
  const std::string_view part = d.take_any({"lo", "hi", "wide"});
  if (part.empty()) return d.fail("an integer product is .lo, .hi or .wide");
  if (part != "wide") {
    same_type(d, type, 3);
    const bool is_known = for_integer(
        type, [&]<class T>() { d.op.run = part == "lo" ? lanes_of<&alu::mad_low<T>>() : lanes_of<&alu::mad_high<T>>(); });
    if (!is_known) d.fail("the type is not supported");
    return;
  }
  d.op.kind = Kind::integer;
  d.expect_operands(4, 4);
  d.op.to = d.write(0, twice(type));
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, type);
  d.op.from[2] = d.read(3, twice(type));
  if (!for_narrow_integer(type, [&]<class T>() { d.op.run = lanes_of<&alu::mad_wide<T>>(); })) d.fail("the type is not supported");
}

void mul24(Decoding& d) {
  if (!d.take("lo")) d.fail("only mul24.lo is supported");
  const Type type = d.type();
  same_type(d, type, 2);
  d.op.run = type == Type::s32 ? lanes_of<&alu::mul24<std::int32_t>>() : lanes_of<&alu::mul24<std::uint32_t>>();
}

// and, or, xor, not: of predicates the masks themselves.
template <auto Masks>
Step run_masks(Context& context, const Operation& operation, std::uint32_t mask) {
  auto operand = [&](std::size_t i) {
    if (operation.from[i] == kNoSlot) return std::uint32_t{0};
    return context.mask(operation.from[i]) ^ ((operation.options[0] >> i & 1) != 0 ? kFullMask : 0);
  };
  context.set_mask(operation.to, Masks(operand(0), operand(1)), mask);
  return Step::advance;
}

template <auto Masks>
void decode_masks(Decoding& d, std::size_t sources) {
  d.op.kind = Kind::compare;
  d.expect_operands(sources + 1, sources + 1);
  d.op.to = d.write(0, Type::pred);
  for (std::size_t i = 0; i < sources; ++i) {
    d.op.from[i] = d.read_predicate(i + 1);
    if (d.is_negated(i + 1)) d.op.options[0] |= static_cast<std::uint8_t>(1 << i);
  }
  d.op.run = &run_masks<Masks>;
}

#define HEADNORM_LOGIC_DECODER(name, function)                                                                              \
  void name(Decoding& d) {                                                                                                  \
    const Type type = d.type();                                                                                             \
    if (type == Type::pred) return decode_masks<&alu::function<std::uint32_t>>(d, 2);                                       \
    same_type(d, type, 2);                                                                                                  \
    if (!for_bits(type, [&]<class T>() { d.op.run = lanes_of<&alu::function<T>>(); })) d.fail("the type is not supported"); \
  }
HEADNORM_LOGIC_DECODER(bit_and, bit_and)
HEADNORM_LOGIC_DECODER(bit_or, bit_or)
HEADNORM_LOGIC_DECODER(bit_xor, bit_xor)
#undef HEADNORM_LOGIC_DECODER

std::uint32_t inverted(std::uint32_t a, std::uint32_t) { return ~a; }

void bit_not(Decoding& d) {
  const Type type = d.type();
  if (type == Type::pred) return decode_masks<&inverted>(d, 1);
  same_type(d, type, 1);
  if (!for_bits(type, [&]<class T>() { d.op.run = lanes_of<&alu::bit_not<T>>(); })) d.fail("the type is not supported");
}

void logical_not(Decoding& d) {
  const Type type = d.type();
  same_type(d, type, 1);
  if (!for_bits(type, [&]<class T>() { d.op.run = lanes_of<&alu::is_zero<T>>(); })) d.fail("the type is not supported");
}

void shift(Decoding& d, bool& is_known, Type type, Run (*choose)(Type)) {
  d.op.kind = Kind::integer;
  d.expect_operands(3, 3);
  d.op.to = d.write(0, type);
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, Type::u32);
  d.op.run = choose(type);
  is_known = d.op.run != nullptr;
}

void shl(Decoding& d) {
  const Type type = d.type();
  bool is_known = false;
  shift(d, is_known, type, [](Type t) {
    Run run = nullptr;
    for_bits(t, [&]<class T>() { run = lanes_of<&alu::shift_left<T>>(); });
    return run;
  });
  if (!is_known) d.fail("the type is not supported");
}

void shr(Decoding& d) {
  const Type type = d.type();
  bool is_known = false;
  shift(d, is_known, type, [](Type t) {
    Run run = nullptr;
    if (!for_bits(t, [&]<class T>() { run = lanes_of<&alu::shift_right<T>>(); }))
      for_integer(t, [&]<class T>() { run = lanes_of<&alu::shift_right<T>>(); });
    return run;
  });
  if (!is_known) d.fail("the type is not supported");
}

void shf(Decoding& d) {
  const bool is_left = d.take("l");
  if (!is_left && !d.take("r")) d.fail("shf is .l or .r");
  const bool wraps = d.take("wrap");
  if (!wraps && !d.take("clamp")) d.fail("shf is .wrap or .clamp");
  same_type(d, d.type(), 3);
  using alu::Count;
  if (is_left) {
    d.op.run = wraps ? lanes_of<&alu::funnel_left<Count::wrap>>() : lanes_of<&alu::funnel_left<Count::clamp>>();
  } else {
    d.op.run = wraps ? lanes_of<&alu::funnel_right<Count::wrap>>() : lanes_of<&alu::funnel_right<Count::clamp>>();
  }
}

void bfe(Decoding& d) {
  const Type type = d.type();
  d.op.kind = Kind::integer;
  d.expect_operands(4, 4);
  d.op.to = d.write(0, type);
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, Type::u32);
  d.op.from[2] = d.read(3, Type::u32);
  const bool is_known =
      size_bytes(type) >= 4 && for_integer(type, [&]<class T>() { d.op.run = lanes_of<&alu::extract_field<T>>(); });
  if (!is_known) d.fail("the type is not supported");
}

void bfi(Decoding& d) {
  const Type type = d.type();
  d.op.kind = Kind::integer;
  d.expect_operands(5, 5);
  d.op.to = d.write(0, type);
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, type);
  d.op.from[2] = d.read(3, Type::u32);
  d.op.from[3] = d.read(4, Type::u32);
  if (type != Type::b32 && type != Type::b64) d.fail("the type is not supported");
  d.op.run = type == Type::b64 ? lanes_of<&alu::insert_field<std::uint64_t>>() : lanes_of<&alu::insert_field<std::uint32_t>>();
}

void brev(Decoding& d) {
  const Type type = d.type();
  same_type(d, type, 1);
  if (!for_bits(type, [&]<class T>() { d.op.run = lanes_of<&alu::reverse_bits<T>>(); })) d.fail("the type is not supported");
}

template <auto Narrow, auto Wide>
void counted(Decoding& d) {
  const Type type = d.type();
  d.op.kind = Kind::integer;
  d.expect_operands(2, 2);
  d.op.to = d.write(0, Type::u32);
  d.op.from[0] = d.read(1, type);
  if (type != Type::b32 && type != Type::b64) d.fail("the type is not supported");
  d.op.run = type == Type::b64 ? lanes_of<Wide>() : lanes_of<Narrow>();
}

void bfind(Decoding& d) {
  const bool is_shift = d.take("shiftamt");
  const Type type = d.type();
  d.op.kind = Kind::integer;
  d.expect_operands(2, 2);
  d.op.to = d.write(0, Type::u32);
  d.op.from[0] = d.read(1, type);
  const bool is_known = size_bytes(type) >= 4 && for_integer(type, [&]<class T>() {
                          d.op.run = is_shift ? lanes_of<&alu::find_shift<T>>() : lanes_of<&alu::find_highest<T>>();
                        });
  if (!is_known) d.fail("the type is not supported");
}

void prmt(Decoding& d) {
  same_type(d, d.type(), 3);
  d.op.run = lanes_of<&alu::permute_bytes>();
}

void lop3(Decoding& d) {
  d.op.kind = Kind::integer;
  d.expect_operands(5, 5);
  const Type type = d.type();
  d.op.to = d.write(0, type);
  for (std::size_t i = 0; i < 3; ++i) d.op.from[i] = d.read(i + 1, type);
  d.op.from[3] = d.constant(d.integer(4), 4);
  d.op.run = lanes_of<&alu::logic3>();
}

}  // namespace

void decode_integer(Decoding& d, Type type, IntegerOperation operation) {
  constexpr void (*kDecoders[])(Decoding&, Type) = {add_integer, sub_integer, mul_integer, mad_integer, div_integer,
                                                    min_integer, max_integer, abs_integer, neg_integer};
  kDecoders[static_cast<std::size_t>(operation)](d, type);
}

const DecoderTable& integer_decoders() {
  static const DecoderTable kTable = {
      {"rem", rem},
      {"sad", sad},
      {"mul24", mul24},
      {"and", bit_and},
      {"or", bit_or},
      {"xor", bit_xor},
      {"not", bit_not},
      {"cnot", logical_not},
      {"shl", shl},
      {"shr", shr},
      {"shf", shf},
      {"bfe", bfe},
      {"bfi", bfi},
      {"brev", brev},
      {"clz", counted<&alu::count_leading_zeros<std::uint32_t>, &alu::count_leading_zeros<std::uint64_t>>},
      {"popc", counted<&alu::count_ones<std::uint32_t>, &alu::count_ones<std::uint64_t>>},
      {"bfind", bfind},
      {"prmt", prmt},
      {"lop3", lop3},
  };
  return kTable;
}

}  // namespace headnorm::emulator
