// A model of rounding that is written apart from the emulator: values are held exactly as a sum of two 113-bit numbers and rounded
// once by counting units in the last place.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace headnorm::emulator::test {

__extension__ using Quad = __float128;

enum class Mode : std::uint8_t { nearest, zero, down, up };

// high + low, |low| below half a unit in the last place of high.
struct Exact {
  Quad high = 0, low = 0;
};

inline Exact exact_sum(Quad a, Quad b) {
  const Quad sum = a + b, b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

struct Shape {
  int precision, min_exponent, max_exponent;  // precision with the hidden bit
};
inline constexpr Shape kSingle{24, -126, 127}, kHalf{11, -14, 15}, kBrain{8, -126, 127}, kDouble{53, -1022, 1023};

inline Quad power_of_two(int exponent) {
  constexpr int kHalfway = 1000;  // where a double still holds the power
  if (exponent > kHalfway) return Quad(0x1p1000) * power_of_two(exponent - kHalfway);
  if (exponent < -kHalfway) return Quad(0x1p-1000) * power_of_two(exponent + kHalfway);
  return std::ldexp(1.0, exponent);
}

inline bool quad_nan(Quad x) { return x != x; }
inline bool quad_negative(Quad x) { return x < 0 || (x == 0 && std::signbit(static_cast<double>(x))); }

// The rounded value, as double: every format here fits in it. Infinite where the format overflows.
inline double round_exactly(const Exact& value, const Shape& shape, Mode mode) {
  const Quad magnitude = value.high < 0 ? -value.high : value.high;
  const double as_double = static_cast<double>(value.high);
  if (quad_nan(value.high) || magnitude == 0 || magnitude > power_of_two(2000)) return as_double;
  int exponent =
      std::isfinite(as_double) && as_double != 0 ? std::max(std::ilogb(as_double) - 1, shape.min_exponent) : shape.min_exponent;
  while (power_of_two(exponent + 1) <= magnitude) ++exponent;
  const Quad unit = power_of_two(exponent - shape.precision + 1), scaled = magnitude / unit;
  const auto whole = static_cast<std::uint64_t>(scaled);
  const Quad rest = scaled - static_cast<Quad>(whole);
  const bool is_negative = value.high < 0;
  const Quad low = is_negative ? -value.low : value.low;  // away from zero is positive
  // A low part moves a rest of exactly 0 or 1/2 to one side.
  const bool is_exact = rest == 0 && low == 0, above_half = rest > Quad(0.5) || (rest == Quad(0.5) && low > 0),
             is_half = rest == Quad(0.5) && low == 0;
  std::uint64_t units = whole;
  const bool goes_away = (mode == Mode::up && !is_negative) || (mode == Mode::down && is_negative);
  if (rest == 0 && low < 0) {
    // Just below a power of two the units are half as large.
    const bool is_power = units == std::uint64_t{1} << (shape.precision - 1) && exponent > shape.min_exponent;
    if (mode != Mode::nearest && !goes_away)
      return round_exactly({(is_negative ? -1 : 1) * (static_cast<Quad>(units) - (is_power ? Quad(0.5) : Quad(1))) * unit, 0},
                           shape, mode);
  } else if (mode == Mode::nearest ? above_half || (is_half && (whole & 1) != 0) : goes_away && !is_exact) {
    ++units;
  }
  const Quad rounded = static_cast<Quad>(units) * unit;
  const Quad largest = (2 - power_of_two(1 - shape.precision)) * power_of_two(shape.max_exponent);
  double result = static_cast<double>(rounded);
  if (rounded > largest) result = mode == Mode::nearest || goes_away ? INFINITY : static_cast<double>(largest);
  return is_negative ? -result : result;
}

}  // namespace headnorm::emulator::test
