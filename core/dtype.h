// Element types of tensors and their exact conversions to and from float (round to nearest even, NaN stays NaN).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/result.h"

namespace headnorm {

enum class Dtype : std::uint8_t { f32, f16, bf16 };

inline constexpr int kDtypeCount = 3;
inline constexpr Dtype kDtypes[kDtypeCount] = {Dtype::f32, Dtype::f16, Dtype::bf16};

constexpr int size_bytes(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 2; }
const char* to_text(Dtype dtype);
Result<Dtype> parse_dtype(std::string_view text);

std::uint16_t bf16_from_float(float value);
float float_from_bf16(std::uint16_t bits);
std::uint16_t f16_from_float(float value);
float float_from_f16(std::uint16_t bits);

// One element at `address` (any alignment) read as, or written from, a float.
float load_element(const void* address, Dtype dtype);
void store_element(void* address, Dtype dtype, float value);

// `value` rounded once to `dtype` (directly from double: no double rounding), returned as a double.
double round_to_dtype(double value, Dtype dtype);

}  // namespace headnorm
