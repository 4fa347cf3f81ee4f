#include "emulator/machine/convert.h"

#include "emulator/machine/type_dispatch.h"

namespace headnorm::emulator {
namespace {

std::int64_t extended(Type type, std::uint64_t bits) {
  const int unused = 64 - 8 * size_bytes(type);
  if (unused == 0) return static_cast<std::int64_t>(bits);
  const auto high = static_cast<std::int64_t>(bits << unused);
  return is_signed(type) ? high >> unused : static_cast<std::int64_t>((bits << unused) >> unused);
}

std::int64_t clamped(Type to, Type from, std::int64_t value) {
  const int bits = 8 * size_bytes(to);
  const bool is_huge = !is_signed(from) && value < 0;  // of u64
  if (bits == 64) {
    if (is_signed(to)) return is_huge ? INT64_MAX : value;
    return is_signed(from) && value < 0 ? 0 : value;
  }
  const std::int64_t low = is_signed(to) ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high = (std::int64_t{1} << (is_signed(to) ? bits - 1 : bits)) - 1;
  if (is_huge || value > high) return high;
  return value < low ? low : value;
}

// An integer as a double that rounds once more as the integer itself would: bits that do not fit leave a 1 in the last place.
double real_of_integer(Type type, std::int64_t value) {
  const bool is_negative = is_signed(type) && value < 0;
  auto magnitude = static_cast<std::uint64_t>(value);
  if (is_negative) magnitude = 0 - magnitude;
  double result = 0;
  if (magnitude < std::uint64_t{1} << 53) {
    result = static_cast<double>(magnitude);
  } else {
    result = std::ldexp(static_cast<double>((magnitude >> 11) | ((magnitude & 0x7ff) != 0 ? 1 : 0)), 11);
  }
  return is_negative ? -result : result;
}

std::uint64_t f64_of_integer(const Conversion& conversion, std::int64_t value) {
  const bool is_signed_source = is_signed(conversion.from);
  const long double exact =
      is_signed_source ? static_cast<long double>(value) : static_cast<long double>(static_cast<std::uint64_t>(value));
  double result = static_cast<double>(exact);
  const bool is_above = result > exact, is_below = result < exact;
  if ((conversion.rounding == Rounding::zero && (exact > 0 ? is_above : is_below)) ||
      (conversion.rounding == Rounding::down && is_above) || (conversion.rounding == Rounding::up && is_below))
    result = std::nextafter(result, is_above ? -INFINITY : INFINITY);
  return std::bit_cast<std::uint64_t>(result);
}

std::uint64_t to_integer(const Conversion& conversion, double value) {
  const int bits = 8 * size_bytes(conversion.to);
  const bool is_nan_zero = conversion.from != Type::f64 && bits < 64;
  return integer_of(value, bits, is_signed(conversion.to), conversion.rounding, is_nan_zero ? 0 : std::uint64_t{1} << (bits - 1));
}

std::uint64_t to_real(const Conversion& conversion, double value) {
  if (conversion.saturates) value = value > 0 ? std::min(value, 1.0) : 0.0;
  switch (conversion.to) {
    case Type::f64:
      return std::bit_cast<std::uint64_t>(value);
    case Type::f32: {
      const std::uint32_t bits = convert_to(conversion, kF32, value);
      return conversion.flushes ? bits_of(flush(f32_of_bits(bits))) : bits;
    }
    case Type::f16:
      return convert_to(conversion, kF16, value);
    default:
      return convert_to(conversion, kBf16, value);
  }
}

}  // namespace

double real_of(Type type, std::uint64_t bits) {
  switch (type) {
    case Type::f64:
      return std::bit_cast<double>(bits);
    case Type::f32:
      return f32_of_bits(static_cast<std::uint32_t>(bits));
    case Type::f16:
      return f32_of_f16(static_cast<std::uint16_t>(bits));
    default:
      return f32_of_bf16(static_cast<std::uint16_t>(bits));
  }
}

std::uint32_t convert_to(const Conversion& conversion, const Format& format, double value) {
  if (conversion.is_relu && (value < 0 || (value == 0 && std::signbit(value)))) value = 0;
  return round_to(value, format, conversion.rounding, conversion.is_finite ? Overflow::to_max_finite : Overflow::to_infinity);
}

std::uint64_t convert(const Conversion& conversion, std::uint64_t bits) {
  if (is_integer(conversion.from)) {
    std::int64_t value = extended(conversion.from, bits);
    if (is_integer(conversion.to)) {
      if (conversion.saturates) value = clamped(conversion.to, conversion.from, value);
      return static_cast<std::uint64_t>(extended(conversion.to, static_cast<std::uint64_t>(value)));
    }
    if (conversion.to == Type::f64) return f64_of_integer(conversion, value);
    return to_real(conversion, real_of_integer(conversion.from, value));
  }
  double value = real_of(conversion.from, bits);
  if (conversion.flushes && conversion.from == Type::f32) value = flush(static_cast<float>(value));
  if (is_integer(conversion.to)) return to_integer(conversion, value);
  if (conversion.rounds_to_integer) value = round_to_integer(value, conversion.rounding);
  return to_real(conversion, value);
}

}  // namespace headnorm::emulator
