// The arithmetic of PTX, one scalar function an instruction. None traps, for any bits.
//
// Floating point: add, mul, fma, div.rn, sqrt.rn are correctly rounded, NaN results are canonical, Flush is the modifier .ftz.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "emulator/machine/values.h"

namespace headnorm::emulator::alu {

enum class Flush : std::uint8_t { no, yes };
enum class Saturate : std::uint8_t { no, yes };    // to [0, 1]; NaN becomes 0
enum class NanRule : std::uint8_t { other, nan };  // of min and max: the other operand, or NaN

__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Double =
    std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, SignedWide, Wide>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>>;

// Unsigned and at least as wide as int, so that nothing overflows.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, Unsigned<T>>;

// ---- integers ----
template <class T>
T add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
T sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
T mul_low(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <class T>
T mul_high(T a, T b) {
  return static_cast<T>((Double<T>(a) * Double<T>(b)) >> (8 * sizeof(T)));
}
template <class T>
Double<T> mul_wide(T a, T b) {
  return static_cast<Double<T>>(Double<T>(a) * Double<T>(b));
}
template <class T>
T mad_low(T a, T b, T c) {
  return add<T>(mul_low<T>(a, b), c);
}
template <class T>
T mad_high(T a, T b, T c) {
  return add<T>(mul_high<T>(a, b), c);
}
template <class T>
Double<T> mad_wide(T a, T b, Double<T> c) {
  return add<Double<T>>(mul_wide<T>(a, b), c);
}
template <class T>
T mul24(T a, T b) {
  const auto cut = [](T x) { return static_cast<T>(static_cast<T>(Unsigned<T>(x) << 8) >> 8); };
  return mul_low<T>(cut(a), cut(b));
}

template <class T>
constexpr T kLowest = std::numeric_limits<T>::min();
// Division by zero gives all ones, as the hardware's; the one overflow wraps.
template <class T>
T div(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return sub<T>(0, a);
  }
  return static_cast<T>(a / b);
}
template <class T>
T rem(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <class T>
T abs_integer(T a) {
  return a < 0 ? sub<T>(0, a) : a;
}
template <class T>
T neg_integer(T a) {
  return sub<T>(0, a);
}
template <class T>
T min_integer(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T max_integer(T a, T b) {
  return a > b ? a : b;
}
template <class T>
T sad(T a, T b, T c) {
  return add<T>(c, a < b ? sub<T>(b, a) : sub<T>(a, b));
}

template <class T>
T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
T bit_not(T a) {
  return static_cast<T>(~a);
}
template <class T>
T is_zero(T a) {
  return a == 0 ? T{1} : T{0};
}
template <class T>
T same(T a) {
  return a;
}

// Shift counts at or past the width are clamped to it.
template <class T>
T shift_left(T a, std::uint32_t n) {
  return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(Unsigned<T>(a) << n);
}
template <class T>
T shift_right(T a, std::uint32_t n) {
  const std::uint32_t last = 8 * sizeof(T) - 1;
  if (std::is_signed_v<T>) return static_cast<T>(a >> std::min(n, last));
  return n > last ? T{0} : static_cast<T>(a >> n);
}
enum class Count : std::uint8_t { wrap, clamp };
template <Count C>
std::uint32_t funnel_count(std::uint32_t n) {
  return C == Count::wrap ? n & 31 : std::min(n, 32u);
}
template <Count C>
std::uint32_t funnel_left(std::uint32_t low, std::uint32_t high, std::uint32_t n) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) << funnel_count<C>(n) >> 32);
}
template <Count C>
std::uint32_t funnel_right(std::uint32_t low, std::uint32_t high, std::uint32_t n) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> funnel_count<C>(n));
}

// Bit fields take position and length from the low byte.
template <class T>
T extract_field(T a, std::uint32_t position, std::uint32_t length) {
  constexpr int kBits = 8 * sizeof(T);
  const int from = static_cast<int>(position & 255), count = static_cast<int>(length & 255);
  if (count == 0) return 0;
  const int sign_at = std::min(from + count - 1, kBits - 1);
  const bool is_filled = std::is_signed_v<T> && (Unsigned<T>(a) >> sign_at & 1) != 0;
  const Unsigned<T> field = from >= kBits ? 0 : static_cast<Unsigned<T>>(Unsigned<T>(a) >> from);
  if (count >= kBits - from) {  // past the highest bit, all is sign
    const int kept = std::max(kBits - from, 0);
    const Unsigned<T> fill = kept == 0 ? ~Unsigned<T>{0} : kept == kBits ? 0 : static_cast<Unsigned<T>>(~Unsigned<T>{0} << kept);
    return static_cast<T>(field | (is_filled ? fill : 0));
  }
  const auto mask = static_cast<Unsigned<T>>((Unsigned<T>{1} << count) - 1);
  return static_cast<T>((field & mask) | (is_filled ? static_cast<Unsigned<T>>(~mask) : 0));
}
template <class T>
T insert_field(T a, T b, std::uint32_t position, std::uint32_t length) {
  constexpr std::uint32_t kBits = 8 * sizeof(T);
  position &= 255;
  length &= 255;
  if (length == 0 || position >= kBits) return b;
  const T ones = length >= kBits ? ~T{0} : static_cast<T>((T{1} << length) - 1);
  const T mask = static_cast<T>(ones << position);
  return static_cast<T>((b & ~mask) | ((a << position) & mask));
}
template <class T>
T reverse_bits(T a) {
  T result = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) result |= static_cast<T>((a >> i & 1) << (8 * sizeof(T) - 1 - i));
  return result;
}
template <class T>
std::uint32_t count_leading_zeros(T a) {
  return static_cast<std::uint32_t>(std::countl_zero(a));
}
template <class T>
std::uint32_t count_ones(T a) {
  return static_cast<std::uint32_t>(std::popcount(a));
}
// Position of the highest bit that differs from the sign; all ones where there is none.
template <class T>
std::uint32_t find_highest(T a) {
  const auto bits = static_cast<Unsigned<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
  return static_cast<std::uint32_t>(8 * sizeof(T)) - 1 - static_cast<std::uint32_t>(std::countl_zero(bits));
}
template <class T>
std::uint32_t find_shift(T a) {
  const std::uint32_t found = find_highest<T>(a);
  return found == ~std::uint32_t{0} ? found : static_cast<std::uint32_t>(8 * sizeof(T)) - 1 - found;
}
inline std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selectors) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t selector = selectors >> (4 * i) & 15;
    std::uint32_t byte = static_cast<std::uint32_t>(bytes >> (8 * (selector & 7))) & 255;
    if ((selector & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}
inline std::uint32_t logic3(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t table) {
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < 8; ++i) {
    if ((table >> i & 1) == 0) continue;
    result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
  }
  return result;
}

// ---- floating point: T is float, double, Half or Brain ----
template <Flush F, class T>
T in(T value) {
  if constexpr (std::is_same_v<T, float> && F == Flush::yes) return flush(value);
  if constexpr (std::is_same_v<T, Half> && F == Flush::yes)
    return (value.bits & 0x7c00) == 0 ? Half{static_cast<std::uint16_t>(value.bits & 0x8000)} : value;
  return value;
}
template <Flush F, Saturate S, class T>
T out(T value) {
  if constexpr (std::is_same_v<T, double>) return value;
  if constexpr (std::is_same_v<T, float>) {
    if (S == Saturate::yes) value = value > 0 ? std::min(value, 1.0f) : 0.0f;
    return in<F>(canonical(value));
  }
  if constexpr (S == Saturate::yes) value = wide(value) > 0 ? narrow<T>(std::min(wide(value), 1.0f)) : T{};
  return in<F>(value);
}

template <Flush F, Saturate S, class T>
T fadd(T a, T b) {
  if constexpr (std::is_same_v<T, double>)
    return a + b;
  else
    return out<F, S>(narrow<T>(wide(in<F>(a)) + wide(in<F>(b))));
}
template <Flush F, Saturate S, class T>
T fsub(T a, T b) {
  if constexpr (std::is_same_v<T, double>)
    return a - b;
  else
    return out<F, S>(narrow<T>(wide(in<F>(a)) - wide(in<F>(b))));
}
template <Flush F, Saturate S, class T>
T fmul(T a, T b) {
  if constexpr (std::is_same_v<T, double>) return a * b;
  // The product of two bf16 may be subnormal in f32 and then be rounded twice.
  else if constexpr (std::is_same_v<T, Brain>)
    return {static_cast<std::uint16_t>(round_to(double{wide(a)} * wide(b), kBf16, Rounding::nearest_even, Overflow::to_infinity))};
  else
    return out<F, S>(narrow<T>(wide(in<F>(a)) * wide(in<F>(b))));
}
template <Flush F, Saturate S, class T>
T ffma(T a, T b, T c) {
  if constexpr (std::is_same_v<T, double>)
    return __builtin_fma(a, b, c);
  else if constexpr (std::is_same_v<T, float>)
    return out<F, S>(__builtin_fmaf(in<F>(a), in<F>(b), in<F>(c)));
  else {
    const double sum = add_to_odd(double{wide(in<F>(a))} * wide(in<F>(b)), wide(in<F>(c)));
    const Format& format = std::is_same_v<T, Half> ? kF16 : kBf16;
    return out<F, S>(T{static_cast<std::uint16_t>(round_to(sum, format, Rounding::nearest_even, Overflow::to_infinity))});
  }
}
template <Flush F, class T>
T fma_relu(T a, T b, T c) {
  const T result = ffma<F, Saturate::no, T>(a, b, c);
  return wide(result) < 0 || result.bits == 0x8000 ? T{} : result;
}
template <Flush F, class T>
T fdiv(T a, T b) {
  return out<F, Saturate::no>(in<F>(a) / in<F>(b));
}
template <Flush F, class T>
T fsqrt(T a) {
  return out<F, Saturate::no>(std::sqrt(in<F>(a)));
}
template <Flush F, class T>
T frcp(T a) {
  return out<F, Saturate::no>(T{1} / in<F>(a));
}

template <class T>
constexpr std::uint64_t kSignBit = std::uint64_t{1} << (8 * sizeof(T) - 1);
template <class T>
bool is_nan(T a) {
  if constexpr (std::is_same_v<T, double>)
    return a != a;
  else
    return wide(a) != wide(a);
}
template <Flush F, class T>
T fneg(T a) {
  if constexpr (std::is_same_v<T, double>)
    return -a;
  else if constexpr (std::is_same_v<T, float>)
    return out<F, Saturate::no>(-a);
  else
    return is_nan(a) ? T{0x7fff} : in<F>(T{static_cast<std::uint16_t>(a.bits ^ 0x8000)});
}
template <Flush F, class T>
T fabs_of(T a) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>)
    return out<F, Saturate::no>(std::fabs(a));
  else
    return is_nan(a) ? T{0x7fff} : in<F>(T{static_cast<std::uint16_t>(a.bits & 0x7fff)});
}

// -0 is below +0.
template <class T>
bool is_below(T a, T b) {
  if constexpr (std::is_same_v<T, double>)
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
  else
    return wide(a) < wide(b) || (wide(a) == wide(b) && std::signbit(wide(a)) && !std::signbit(wide(b)));
}
template <class T>
T canonical_nan() {
  if constexpr (std::is_same_v<T, double>)
    return std::numeric_limits<double>::quiet_NaN();
  else
    return narrow<T>(NAN);
}
template <Flush F, NanRule N, class T>
T fmin_of(T a, T b) {
  a = in<F>(a);
  b = in<F>(b);
  if (is_nan(a) && is_nan(b)) return canonical_nan<T>();
  if (is_nan(a)) return N == NanRule::nan ? canonical_nan<T>() : b;
  if (is_nan(b)) return N == NanRule::nan ? canonical_nan<T>() : a;
  return is_below(b, a) ? b : a;
}
template <Flush F, NanRule N, class T>
T fmax_of(T a, T b) {
  a = in<F>(a);
  b = in<F>(b);
  if (is_nan(a) && is_nan(b)) return canonical_nan<T>();
  if (is_nan(a)) return N == NanRule::nan ? canonical_nan<T>() : b;
  if (is_nan(b)) return N == NanRule::nan ? canonical_nan<T>() : a;
  return is_below(a, b) ? b : a;
}
template <Flush F, NanRule N, class T>
T fmin3(T a, T b, T c) {
  return fmin_of<F, N, T>(fmin_of<F, N, T>(a, b), c);
}
template <Flush F, NanRule N, class T>
T fmax3(T a, T b, T c) {
  return fmax_of<F, N, T>(fmax_of<F, N, T>(a, b), c);
}

// copysign a, b: the sign of a on b.
template <class T>
T copy_sign(T a, T b) {
  return std::copysign(b, a);
}

// ---- both halves of a register ----
template <auto F, class T>
Pair<T> each1(Pair<T> a) {
  return {F(a.low), F(a.high)};
}
template <auto F, class T>
Pair<T> each2(Pair<T> a, Pair<T> b) {
  return {F(a.low, b.low), F(a.high, b.high)};
}
template <auto F, class T>
Pair<T> each3(Pair<T> a, Pair<T> b, Pair<T> c) {
  return {F(a.low, b.low, c.low), F(a.high, b.high, c.high)};
}

// ---- comparisons ----
template <class T>
bool equal(T a, T b) {
  return a == b;
}
template <class T>
bool not_equal(T a, T b) {
  return a != b;
}
template <class T>
bool less(T a, T b) {
  return a < b;
}
template <class T>
bool less_equal(T a, T b) {
  return a <= b;
}
template <class T>
bool greater(T a, T b) {
  return a > b;
}
template <class T>
bool greater_equal(T a, T b) {
  return a >= b;
}

template <class T>
auto comparable(T a) {
  if constexpr (std::is_same_v<T, double>)
    return a;
  else
    return wide(a);
}
enum class Nan : std::uint8_t { ordered, unordered };  // what a comparison with NaN gives: false, or true
template <Flush F, Nan N, class T, auto C>
bool compare_real(T a, T b) {
  if (is_nan(a) || is_nan(b)) return N == Nan::unordered;
  return C(comparable(in<F>(a)), comparable(in<F>(b)));
}
template <class T>
bool both_numbers(T a, T b) {
  return !is_nan(a) && !is_nan(b);
}
template <class T>
bool any_nan(T a, T b) {
  return is_nan(a) || is_nan(b);
}

}  // namespace headnorm::emulator::alu
