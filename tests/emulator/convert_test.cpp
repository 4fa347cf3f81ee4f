// cvt between all scalar types, each on 2,048 vectors, against conversions written with other means.
#include "tests/emulator/exact.h"
#include "tests/emulator/operation_table.h"

namespace headnorm::emulator::test {
namespace {

using U = std::uint64_t;
using D = Domain;
__extension__ using SignedWide = __int128;

std::int64_t signed_of(U value, int bits) { return static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits); }
U cut(U value, int bits) { return bits == 64 ? value : value & ((U{1} << bits) - 1); }
D domain_of(int bits) { return bits == 16 ? D::integer16 : bits == 32 ? D::integer32 : D::integer64; }
float f32(U bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
U bits32(double value) { return std::isnan(value) ? 0x7fffffff : std::bit_cast<std::uint32_t>(static_cast<float>(value)); }

SignedWide value_of(U bits, int width, bool is_signed) {
  return is_signed ? SignedWide{signed_of(bits, width)} : SignedWide(cut(bits, width));
}

TEST(Convert, BetweenIntegers) {
  for (int from : {16, 32, 64}) {
    for (int to : {16, 32, 64}) {
      for (bool from_signed : {false, true}) {
        for (bool to_signed : {false, true}) {
          const std::string types = fmt::format("{}{}.{}{}", to_signed ? 's' : 'u', to, from_signed ? 's' : 'u', from);
          check_operation({"cvt." + types + " %z, %a", to / 8, {domain_of(from)}, [=](U a, U, U) {
                             return cut(static_cast<U>(value_of(a, from, from_signed)), to);
                           }});
          if (from == to && from_signed == to_signed) continue;
          check_operation({"cvt.sat." + types + " %z, %a", to / 8, {domain_of(from)}, [=](U a, U, U) {
                             const SignedWide one = 1, low = to_signed ? -(one << (to - 1)) : 0,
                                              high = (one << (to_signed ? to - 1 : to)) - 1;
                             return cut(static_cast<U>(std::clamp(value_of(a, from, from_signed), low, high)), to);
                           }});
        }
      }
    }
  }
  check_operation({"cvt.s8.s32 %r1, %a; mov.b32 %z, %r1", 4, {D::integer32}, [](U a, U, U) {
                     return cut(static_cast<U>(signed_of(a, 8)), 32);
                   }});
  check_operation({"cvt.sat.s8.s32 %z, %a", 2, {D::integer32}, [](U a, U, U) {
                     return cut(static_cast<U>(std::clamp<std::int64_t>(signed_of(a, 32), -128, 127)), 16);
                   }});
  check_operation({"cvt.pack.sat.s8.s32.b32 %z, %a, %b, %c", 4, {D::integer32, D::integer32, D::integer32}, [](U a, U b, U c) {
                     const auto one = [](U x) {
                       return cut(static_cast<U>(std::clamp<std::int64_t>(signed_of(x, 32), -128, 127)), 8);
                     };
                     return cut(c << 16 | one(a) << 8 | one(b), 32);
                   }});
}

TEST(Convert, RealsToIntegersRoundAndSaturate) {
  struct Named {
    const char* name;
    double (*round)(double);
  };
  const Named modes[] = {{"rni", [](double x) { return std::nearbyint(x); }},
                         {"rzi", [](double x) { return std::trunc(x); }},
                         {"rmi", [](double x) { return std::floor(x); }},
                         {"rpi", [](double x) { return std::ceil(x); }}};
  for (const Named& mode : modes) {
    for (int to : {16, 32, 64}) {
      for (bool is_signed : {false, true}) {
        const auto reference = [=, &mode](double x, bool is_double) -> U {
          if (std::isnan(x)) return to == 64 || is_double ? U{1} << (to - 1) : 0;
          const long double rounded = mode.round(x), low = is_signed ? -std::ldexp(1.0L, to - 1) : 0,
                            high = std::ldexp(1.0L, is_signed ? to - 1 : to) - 1;
          const long double clamped = std::clamp(rounded, low, high);
          return cut(clamped < 0 ? static_cast<U>(static_cast<std::int64_t>(clamped)) : static_cast<U>(clamped), to);
        };
        const std::string type = fmt::format("{}{}", is_signed ? 's' : 'u', to);
        check_operation({fmt::format("cvt.{}.{}.f32 %z, %a", mode.name, type), to / 8, {D::f32}, [=](U a, U, U) {
                           return reference(f32(a), false);
                         }});
        check_operation({fmt::format("cvt.{}.{}.f64 %z, %a", mode.name, type), to / 8, {D::f64}, [=](U a, U, U) {
                           return reference(std::bit_cast<double>(a), true);
                         }});
      }
    }
    check_operation(
        {fmt::format("cvt.{}.f32.f32 %z, %a", mode.name), 4, {D::f32}, [&mode](U a, U, U) { return bits32(mode.round(f32(a))); }});
  }
}

TEST(Convert, IntegersToRealsRoundOnce) {
  struct Named {
    const char* name;
    Mode mode;
  };
  for (const Named& named : {Named{"rn", Mode::nearest}, Named{"rz", Mode::zero}, Named{"rm", Mode::down}, Named{"rp", Mode::up}}) {
    for (int from : {16, 32, 64}) {
      for (bool is_signed : {false, true}) {
        const std::string type = fmt::format("{}{}", is_signed ? 's' : 'u', from);
        const auto exact = [=](U a) { return Exact{static_cast<Quad>(value_of(a, from, is_signed)), 0}; };
        check_operation({fmt::format("cvt.{}.f32.{} %z, %a", named.name, type), 4, {domain_of(from)}, [=](U a, U, U) {
                           return bits32(round_exactly(exact(a), kSingle, named.mode));
                         }});
        check_operation({fmt::format("cvt.{}.f64.{} %z, %a", named.name, type), 8, {domain_of(from)}, [=](U a, U, U) {
                           return std::bit_cast<U>(round_exactly(exact(a), kDouble, named.mode));
                         }});
      }
    }
  }
}

// Bits of an f16 or bf16 by searching its values: monotone in the magnitude.
U narrow_bits(double value, const Shape& shape) {
  if (std::isnan(value)) return 0x7fff;
  const U sign = std::signbit(value) ? 0x8000 : 0;
  const double rounded = std::fabs(round_exactly({value, 0}, shape, Mode::nearest));
  const int mantissa = shape.precision - 1;
  if (std::isinf(rounded)) return sign | static_cast<U>(shape.max_exponent * 2 + 1) << mantissa;
  if (rounded < std::ldexp(1.0, shape.min_exponent))
    return sign | static_cast<U>(std::ldexp(rounded, mantissa - shape.min_exponent));
  const int exponent = std::ilogb(rounded);
  return sign | (static_cast<U>(exponent - shape.min_exponent + 1) << mantissa) |
         (static_cast<U>(std::ldexp(rounded, mantissa - exponent)) & ((U{1} << mantissa) - 1));
}

TEST(Convert, BetweenReals) {
  check_operation({"cvt.rn.f16.f32 %z, %a", 2, {D::f32}, [](U a, U, U) { return narrow_bits(f32(a), kHalf); }});
  check_operation({"cvt.rn.bf16.f32 %z, %a", 2, {D::f32}, [](U a, U, U) { return narrow_bits(f32(a), kBrain); }});
  check_operation({"cvt.rn.f16x2.f32 %z, %a, %b", 4, {D::f32, D::f32}, [](U a, U b, U) {
                     return narrow_bits(f32(a), kHalf) << 16 | narrow_bits(f32(b), kHalf);
                   }});
  check_operation({"cvt.rn.bf16x2.f32 %z, %a, %b", 4, {D::f32, D::f32}, [](U a, U b, U) {
                     return narrow_bits(f32(a), kBrain) << 16 | narrow_bits(f32(b), kBrain);
                   }});
  check_operation({"cvt.rn.relu.bf16x2.f32 %z, %a, %b", 4, {D::f32, D::f32}, [](U a, U b, U) {
                     const auto one = [](float x) { return std::signbit(x) && !std::isnan(x) ? U{0} : narrow_bits(x, kBrain); };
                     return one(f32(a)) << 16 | one(f32(b));
                   }});
  check_operation({"cvt.rn.f32.f64 %z, %a", 4, {D::f64}, [](U a, U, U) { return bits32(std::bit_cast<double>(a)); }});
  check_operation({"cvt.f64.f32 %z, %a; setp.nan.f64 %q1, %z, %z; @%q1 mov.b64 %z, 0", 8, {D::f32}, [](U a, U, U) {
                     return std::isnan(f32(a)) ? 0 : std::bit_cast<U>(static_cast<double>(f32(a)));
                   }});
  check_operation(
      {"cvt.sat.f32.f32 %z, %a", 4, {D::f32}, [](U a, U, U) { return bits32(f32(a) > 0 ? std::min(f32(a), 1.0f) : 0.0f); }});
  check_operation({"cvt.f32.bf16 %z, %a", 4, {D::bf16}, [](U a, U, U) { return bits32(f32(a << 16)); }, "sm_90"});
  check_operation({"cvt.f32.f16 %z, %a", 4, {D::f16}, [](U a, U, U) -> U {
                     const int exponent = static_cast<int>(a >> 10 & 31);
                     const double mantissa = static_cast<double>(a & 1023), sign = (a & 0x8000) != 0 ? -1 : 1;
                     if (exponent == 31) return bits32(mantissa != 0 ? NAN : sign * INFINITY);
                     return bits32(sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25)));
                   }});
}

// The value of each e4m3 or e5m2 by its definition; the nearest is found by looking at all of them.
double byte_value(U bits, int mantissa_bits, int bias) {
  const U field = bits >> mantissa_bits & ((U{1} << (7 - mantissa_bits)) - 1);
  const double part = static_cast<double>(bits & ((U{1} << mantissa_bits) - 1));
  const double magnitude = field == 0
                               ? std::ldexp(part, 1 - bias - mantissa_bits)
                               : std::ldexp(part + std::ldexp(1.0, mantissa_bits), static_cast<int>(field) - bias - mantissa_bits);
  return (bits & 128) != 0 ? -magnitude : magnitude;
}

U nearest_byte(double value, int mantissa_bits, int bias, U largest) {
  if (std::isnan(value)) return 0x7f;
  const U sign = std::signbit(value) ? 128 : 0;
  if (std::fabs(value) >= byte_value(largest, mantissa_bits, bias)) return sign | largest;
  U best = 0;
  for (U candidate = 0; candidate <= largest; ++candidate) {
    const double before = std::fabs(byte_value(best, mantissa_bits, bias) - std::fabs(value)),
                 now = std::fabs(byte_value(candidate, mantissa_bits, bias) - std::fabs(value));
    if (now < before || (now == before && (candidate & 1) == 0)) best = candidate;
  }
  return sign | best;
}

TEST(Convert, ToBytesAndBack) {
  const auto e4m3 = [](double x) { return nearest_byte(x, 3, 7, 0x7e); };
  const auto e5m2 = [](double x) { return nearest_byte(x, 2, 15, 0x7b); };
  check_operation({"cvt.rn.satfinite.e4m3x2.f32 %z, %a, %b",
                   2,
                   {D::f32, D::f32},
                   [=](U a, U b, U) { return e4m3(f32(a)) << 8 | e4m3(f32(b)); },
                   "sm_90"});
  check_operation({"cvt.rn.satfinite.e5m2x2.f32 %z, %a, %b",
                   2,
                   {D::f32, D::f32},
                   [=](U a, U b, U) { return e5m2(f32(a)) << 8 | e5m2(f32(b)); },
                   "sm_90"});
  check_operation({"cvt.rn.f16x2.e4m3x2 %z, %a",
                   4,
                   {D::integer16},
                   [=](U a, U, U) {
                     const auto one = [](U x) { return (x & 127) == 127 ? U{0x7fff} : narrow_bits(byte_value(x, 3, 7), kHalf); };
                     return one(a >> 8 & 255) << 16 | one(a & 255);
                   },
                   "sm_90"});
}

}  // namespace
}  // namespace headnorm::emulator::test
