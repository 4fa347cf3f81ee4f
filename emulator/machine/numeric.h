// Numbers as the hardware holds them: conversions between formats with named rounding, and arithmetic that C++ does not name.
//
// NaN results are the canonical NaN of the format (0x7fffffff, 0x7fff). Nothing here depends on the host's rounding mode, except
// what says that it sets it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace headnorm::emulator {

enum class Rounding : std::uint8_t { nearest_even, zero, down, up, nearest_away };

// A floating-point format narrower than double.
struct Format {
  int mantissa_bits;         // without the hidden one
  int min_exponent;          // of the smallest normal
  std::uint32_t max_finite;  // bits
  std::uint32_t infinity;    // bits; of a format without infinity: its NaN
  std::uint32_t nan;         // bits
  int sign_bit;
};

inline constexpr Format kF32{23, -126, 0x7f7fffff, 0x7f800000, 0x7fffffff, 31};
inline constexpr Format kF16{10, -14, 0x7bff, 0x7c00, 0x7fff, 15};
inline constexpr Format kBf16{7, -126, 0x7f7f, 0x7f80, 0x7fff, 15};
inline constexpr Format kTf32{10, -126, 0x3fbff, 0x3fc00, 0x3ffff, 18};  // without the 13 lower bits of its f32 register
inline constexpr Format kE4m3{3, -6, 0x7e, 0x7f, 0x7f, 7};
inline constexpr Format kE5m2{2, -14, 0x7b, 0x7c, 0x7f, 7};

enum class Overflow : std::uint8_t { to_infinity, to_max_finite };  // to_max_finite also for infinities

// The bits of `value` in a format.
std::uint32_t round_to(double value, const Format& format, Rounding rounding, Overflow overflow);
double value_of(std::uint32_t bits, const Format& format);

// A sum that is rounded to odd, so that rounding it once more is right: a + b exactly, then once.
double add_to_odd(double a, double b);

inline float f32_of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float canonical(float value) { return value == value ? value : f32_of_bits(0x7fffffff); }
inline float flush(float value) { return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value; }

// To nearest even; inline, since kernels convert at every load and store.
inline float f32_of_bf16(std::uint16_t bits) { return f32_of_bits(std::uint32_t{bits} << 16); }
inline std::uint16_t bf16_of_f32(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<std::uint16_t>(value == value ? rounded : 0x7fff);
}

inline float f32_of_f16(std::uint16_t bits) {
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  // Scaling by 2^112 moves the exponent and makes subnormals right; infinities and NaN overflow the product and are set apart.
  const float finite = f32_of_bits(magnitude) * 0x1p112f;
  const std::uint32_t special = (bits & 0x3ffu) != 0 ? 0x7fffffffu : 0x7f800000u;
  const std::uint32_t result = (bits & 0x7c00u) == 0x7c00u ? special : bits_of(finite);
  const std::uint32_t sign = result == 0x7fffffffu ? 0 : (bits & 0x8000u) << 16;
  return f32_of_bits(result | sign);
}

inline std::uint16_t f16_of_f32(float value) {
  const std::uint32_t bits = bits_of(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  // Normal: move the exponent, round at bit 13. Subnormal: adding 0.5 leaves the rounded bits at the bottom of the sum.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const std::uint32_t subnormal = bits_of(f32_of_bits(magnitude) + 0.5f) - bits_of(0.5f);
  std::uint32_t result = magnitude < bits_of(0x1p-14f) ? subnormal : normal;
  if (magnitude >= bits_of(65520.0f)) result = 0x7c00;
  return static_cast<std::uint16_t>(value == value ? result | sign : 0x7fffu);
}

// add, sub, mul, fma, div and sqrt with a named rounding, by the host's rounding mode, which is put back.
enum class Arithmetic : std::uint8_t { add, multiply, fused, divide, square_root };
float directed(Arithmetic operation, Rounding rounding, float a, float b, float c);
double directed(Arithmetic operation, Rounding rounding, double a, double b, double c);

// To an integer of `bits` bits: rounded, clamped to its range; NaN is 0, or the highest bit for 64-bit results and f64 sources.
std::uint64_t integer_of(double value, int bits, bool is_signed, Rounding rounding, std::uint64_t nan);
double round_to_integer(double value, Rounding rounding);

}  // namespace headnorm::emulator
