// The values of registers that C++ has no type for.
#pragma once

#include <cstdint>

#include "emulator/machine/numeric.h"

namespace headnorm::emulator {

struct Half {
  std::uint16_t bits = 0;
};
struct Brain {
  std::uint16_t bits = 0;
};

inline float wide(float value) { return value; }
inline float wide(Half value) { return f32_of_f16(value.bits); }
inline float wide(Brain value) { return f32_of_bf16(value.bits); }

template <class T>
T narrow(float value);
template <>
inline float narrow<float>(float value) {
  return canonical(value);
}
template <>
inline Half narrow<Half>(float value) {
  return {f16_of_f32(value)};
}
template <>
inline Brain narrow<Brain>(float value) {
  return {bf16_of_f32(value)};
}

// Two in one register, the lower half first.
template <class T>
struct Pair {
  T low, high;
};
using Half2 = Pair<Half>;
using Brain2 = Pair<Brain>;
using Float2 = Pair<float>;

}  // namespace headnorm::emulator
