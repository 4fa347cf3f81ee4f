// One conversion between scalar types, as cvt does it, on register bits.
#pragma once

#include <cstdint>

#include "emulator/machine/numeric.h"
#include "emulator/ptx/module.h"

namespace headnorm::emulator {

struct Conversion {
  ptx::Type to = ptx::Type::f32, from = ptx::Type::f32;
  Rounding rounding = Rounding::nearest_even;
  bool rounds_to_integer = false;  // .rni and the like
  bool flushes = false;            // .ftz
  bool saturates = false;          // .sat: to the range of an integer, to [0, 1] of a real
  bool is_relu = false;            // negative becomes 0
  bool is_finite = false;          // .satfinite: past the largest finite becomes it
};

// `bits` in the type's width; an integer result is extended to 64 bits by its sign.
std::uint64_t convert(const Conversion& conversion, std::uint64_t bits);

// A real of a register as double.
double real_of(ptx::Type type, std::uint64_t bits);

// To the bits of a narrower format, with the conversion's rounding, relu and satfinite.
std::uint32_t convert_to(const Conversion& conversion, const Format& format, double value);

}  // namespace headnorm::emulator
