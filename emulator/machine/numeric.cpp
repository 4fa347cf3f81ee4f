#include "emulator/machine/numeric.h"

#include <cfenv>
#include <limits>

namespace headnorm::emulator {
namespace {

// Whether a magnitude between two neighbours goes to the upper one.
bool goes_up(Rounding rounding, bool is_negative, double rest, bool is_odd) {
  switch (rounding) {
    case Rounding::nearest_even:
      return rest > 0.5 || (rest == 0.5 && is_odd);
    case Rounding::nearest_away:
      return rest >= 0.5;
    case Rounding::zero:
      return false;
    case Rounding::down:
      return is_negative && rest > 0;
    case Rounding::up:
      return !is_negative && rest > 0;
  }
  return false;
}

std::uint32_t overflowed(const Format& format, Rounding rounding, Overflow overflow, bool is_negative) {
  const bool stays =
      rounding == Rounding::zero || (rounding == Rounding::down && !is_negative) || (rounding == Rounding::up && is_negative);
  return overflow == Overflow::to_max_finite || stays ? format.max_finite : format.infinity;
}

int host_mode(Rounding rounding) {
  switch (rounding) {
    case Rounding::zero:
      return FE_TOWARDZERO;
    case Rounding::down:
      return FE_DOWNWARD;
    case Rounding::up:
      return FE_UPWARD;
    case Rounding::nearest_even:
    case Rounding::nearest_away:
      break;
  }
  return FE_TONEAREST;
}

// Not inlined and not analysed: the compiler must not move the operation across the change of the rounding mode.
template <class T>
[[gnu::noipa]] T apply(Arithmetic operation, T a, T b, T c) {
  switch (operation) {
    case Arithmetic::add:
      return a + b;
    case Arithmetic::multiply:
      return a * b;
    case Arithmetic::fused:
      return std::fma(a, b, c);
    case Arithmetic::divide:
      return a / b;
    case Arithmetic::square_root:
      return std::sqrt(a);
  }
  return a;
}

template <class T>
T apply_in_mode(Arithmetic operation, Rounding rounding, T a, T b, T c) {
  const int before = std::fegetround();
  std::fesetround(host_mode(rounding));
  const T result = apply<T>(operation, a, b, c);
  std::fesetround(before);
  return result;
}

}  // namespace

std::uint32_t round_to(double value, const Format& format, Rounding rounding, Overflow overflow) {
  if (std::isnan(value)) return format.nan;
  const bool is_negative = std::signbit(value);
  const std::uint32_t sign = is_negative ? std::uint32_t{1} << format.sign_bit : 0;
  if (std::isinf(value)) return sign | (overflow == Overflow::to_max_finite ? format.max_finite : format.infinity);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), format.min_exponent);
  const double scaled = std::ldexp(magnitude, format.mantissa_bits - exponent);  // in units of the last place
  const double whole = std::floor(scaled);
  auto units = static_cast<std::uint64_t>(whole);
  if (goes_up(rounding, is_negative, scaled - whole, (units & 1) != 0)) ++units;
  // A carry out of the mantissa raises the exponent by itself; a subnormal has exponent field 0.
  const std::uint64_t field = static_cast<std::uint64_t>(exponent - format.min_exponent) << format.mantissa_bits;
  const std::uint64_t bits = field + units;
  if (bits > format.max_finite) return sign | overflowed(format, rounding, overflow, is_negative);
  return sign | static_cast<std::uint32_t>(bits);
}

double value_of(std::uint32_t bits, const Format& format) {
  const std::uint32_t magnitude = bits & ((std::uint32_t{1} << format.sign_bit) - 1);
  const double sign = (bits >> format.sign_bit & 1) != 0 ? -1 : 1;
  if (magnitude > format.max_finite) return magnitude == format.infinity && format.infinity != format.nan ? sign * INFINITY : NAN;
  const std::uint32_t field = magnitude >> format.mantissa_bits;
  std::uint32_t units = magnitude & ((std::uint32_t{1} << format.mantissa_bits) - 1);
  if (field != 0) units |= std::uint32_t{1} << format.mantissa_bits;
  const int exponent = format.min_exponent + static_cast<int>(field == 0 ? 0 : field - 1);
  return sign * std::ldexp(static_cast<double>(units), exponent - format.mantissa_bits);
}

double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double b_part = sum - a, error = (a - (sum - b_part)) + (b - b_part);
  if (error == 0) return sum;
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if ((bits & 1) != 0) return sum;
  // Toward the error: the neighbour has an odd last bit.
  bits += (error > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}

float directed(Arithmetic operation, Rounding rounding, float a, float b, float c) {
  return canonical(apply_in_mode(operation, rounding, a, b, c));
}

double directed(Arithmetic operation, Rounding rounding, double a, double b, double c) {
  return apply_in_mode(operation, rounding, a, b, c);
}

double round_to_integer(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
    case Rounding::nearest_away:
      return std::round(value);
    case Rounding::nearest_even:
      break;
  }
  return std::nearbyint(value);
}

std::uint64_t integer_of(double value, int bits, bool is_signed, Rounding rounding, std::uint64_t nan) {
  if (std::isnan(value)) return nan;
  const double rounded = round_to_integer(value, rounding);
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  const std::uint64_t ones = ~std::uint64_t{0};
  const std::uint64_t highest = is_signed ? ones >> (65 - bits) : ones >> (64 - bits);
  if (rounded >= limit) return highest;
  if (!is_signed) return rounded <= 0 ? 0 : static_cast<std::uint64_t>(rounded);
  if (rounded < -limit) return ~highest;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded));
}

}  // namespace headnorm::emulator
