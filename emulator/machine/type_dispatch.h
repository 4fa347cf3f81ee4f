// Calls a template with the C++ type of a PTX type; false where the type is not of the kind.
#pragma once

#include <cstdint>

#include "emulator/machine/decoding.h"
#include "emulator/machine/values.h"

namespace headnorm::emulator {

template <class F>
bool for_narrow_integer(Type type, F f) {
  switch (type) {
    case Type::u16:
      return f.template operator()<std::uint16_t>(), true;
    case Type::s16:
      return f.template operator()<std::int16_t>(), true;
    case Type::u32:
      return f.template operator()<std::uint32_t>(), true;
    case Type::s32:
      return f.template operator()<std::int32_t>(), true;
    default:
      return false;
  }
}

template <class F>
bool for_integer(Type type, F f) {
  if (type == Type::u64) return f.template operator()<std::uint64_t>(), true;
  if (type == Type::s64) return f.template operator()<std::int64_t>(), true;
  return for_narrow_integer(type, f);
}

template <class F>
bool for_bits(Type type, F f) {
  switch (type) {
    case Type::b16:
      return f.template operator()<std::uint16_t>(), true;
    case Type::b32:
      return f.template operator()<std::uint32_t>(), true;
    case Type::b64:
      return f.template operator()<std::uint64_t>(), true;
    default:
      return false;
  }
}

inline bool is_integer(Type type) { return type <= Type::s64; }
inline bool is_signed(Type type) { return type >= Type::s8 && type <= Type::s64; }

// The integer forms of instructions that floating point has too.
enum class IntegerOperation : std::uint8_t { add, sub, mul, mad, div, min, max, abs, neg };
void decode_integer(Decoding& decoding, Type type, IntegerOperation operation);

}  // namespace headnorm::emulator
