#include "core/dtype.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace headnorm {

const char* to_text(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
    case Dtype::f16:
      return "f16";
    case Dtype::bf16:
      return "bf16";
  }
  return "?";
}

Result<Dtype> parse_dtype(std::string_view text) {
  for (Dtype dtype : kDtypes) {
    if (text == to_text(dtype)) return dtype;
  }
  return user_error(fmt::format("'{}' is not a dtype", text), "use f32, f16 or bf16");
}

std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float float_from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x1ffu));
  const double rounded = std::fabs(round_to_dtype(value, Dtype::f16));
  if (std::isinf(rounded)) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (rounded < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(rounded * 0x1p24));
  const auto exact = std::bit_cast<std::uint32_t>(static_cast<float>(rounded));
  const std::uint32_t exponent = (exact >> 23) - 127 + 15;
  return static_cast<std::uint16_t>(sign | (exponent << 10) | ((exact >> 13) & 0x3ffu));
}

float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13));
}

float load_element(const void* address, Dtype dtype) {
  if (dtype == Dtype::f32) {
    float value;
    std::memcpy(&value, address, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, address, sizeof bits);
  return dtype == Dtype::f16 ? float_from_f16(bits) : float_from_bf16(bits);
}

void store_element(void* address, Dtype dtype, float value) {
  if (dtype == Dtype::f32) {
    std::memcpy(address, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = dtype == Dtype::f16 ? f16_from_float(value) : bf16_from_float(value);
  std::memcpy(address, &bits, sizeof bits);
}

double round_to_dtype(double value, Dtype dtype) {
  if (!std::isfinite(value) || value == 0.0) return value;
  // Significant bits, smallest normal exponent and largest finite value of the dtype.
  struct Format {
    int bits, min_exponent;
    double max;
  };
  static constexpr Format kFormats[kDtypeCount] = {{24, -126, 0x1.fffffep127}, {11, -14, 65504.0}, {8, -126, 0x1.fep127}};
  const Format& format = kFormats[static_cast<int>(dtype)];
  const int exponent = std::max(std::ilogb(value), format.min_exponent);
  const double ulp = std::ldexp(1.0, exponent - format.bits + 1);
  const double rounded = std::nearbyint(value / ulp) * ulp;
  if (std::fabs(rounded) > format.max) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

}  // namespace headnorm
