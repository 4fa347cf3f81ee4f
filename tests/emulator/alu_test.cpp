// Every arithmetic instruction on at least 2,000 vectors with edges, against values computed apart: integers in wider integers,
// reals by exact sums and products that are rounded once.
#include "tests/emulator/exact.h"
#include "tests/emulator/operation_table.h"

namespace headnorm::emulator::test {
namespace {

using U = std::uint64_t;
__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;
using D = Domain;

std::int64_t signed_of(U value, int bits) { return static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits); }
U cut(U value, int bits) { return bits == 64 ? value : value & ((U{1} << bits) - 1); }

D domain_of(int bits) { return bits == 16 ? D::integer16 : bits == 32 ? D::integer32 : D::integer64; }

OperationRow integer_row(const std::string& text, int bits, std::size_t sources, Reference reference) {
  return {text, bits / 8, std::vector<D>(sources, domain_of(bits)), std::move(reference)};
}

TEST(Alu, IntegersOfEveryWidth) {
  for (int bits : {16, 32, 64}) {
    for (char kind : {'u', 's'}) {
      const std::string type = fmt::format(".{}{}", kind, bits);
      const auto value = [=](U x) -> SignedWide { return kind == 's' ? SignedWide{signed_of(x, bits)} : SignedWide(cut(x, bits)); };
      const auto result = [=](SignedWide x) { return cut(static_cast<U>(x), bits); };
      check_operation(integer_row("add" + type + " %z, %a, %b", bits, 2, [=](U a, U b, U) { return result(value(a) + value(b)); }));
      check_operation(integer_row("sub" + type + " %z, %a, %b", bits, 2, [=](U a, U b, U) { return result(value(a) - value(b)); }));
      check_operation(integer_row("mul.lo" + type + " %z, %a, %b", bits, 2, [=](U a, U b, U) {
        return result(static_cast<SignedWide>(static_cast<Wide>(value(a)) * static_cast<Wide>(value(b))));
      }));
      check_operation(integer_row("mul.hi" + type + " %z, %a, %b", bits, 2, [=](U a, U b, U) {
        if (kind == 'u') return cut(static_cast<U>(Wide{cut(a, bits)} * cut(b, bits) >> bits), bits);
        return result(value(a) * value(b) >> bits);
      }));
      check_operation(
          integer_row("mad.lo" + type + " %z, %a, %b, %c", bits, 3, [=](U a, U b, U c) { return cut(a * b + c, bits); }));
      check_operation(
          integer_row("min" + type + " %z, %a, %b", bits, 2, [=](U a, U b, U) { return result(std::min(value(a), value(b))); }));
      check_operation(
          integer_row("max" + type + " %z, %a, %b", bits, 2, [=](U a, U b, U) { return result(std::max(value(a), value(b))); }));
      check_operation(integer_row("div" + type + " %z, %a, %b", bits, 2,
                                  [=](U a, U b, U) { return cut(b, bits) == 0 ? cut(~U{0}, bits) : result(value(a) / value(b)); }));
      check_operation(integer_row("rem" + type + " %z, %a, %b", bits, 2,
                                  [=](U a, U b, U) { return cut(b, bits) == 0 ? cut(a, bits) : result(value(a) % value(b)); }));
      check_operation({"shr" + type + " %z, %a, %b", bits / 8, {domain_of(bits), D::small}, [=](U a, U b, U) {
                         const U count = std::min<U>(b, 127);
                         return result(value(a) >> count);
                       }});
      if (bits == 64) continue;
      check_operation({"mul.wide" + type + " %z, %a, %b", bits / 4, {domain_of(bits), domain_of(bits)}, [=](U a, U b, U) {
                         return cut(static_cast<U>(value(a) * value(b)), 2 * bits);
                       }});
      check_operation({"mad.wide" + type + " %z, %a, %b, %c",
                       bits / 4,
                       {domain_of(bits), domain_of(bits), domain_of(2 * bits)},
                       [=](U a, U b, U c) { return cut(static_cast<U>(value(a) * value(b)) + c, 2 * bits); }});
    }
    const std::string b = fmt::format(".b{}", bits), s = fmt::format(".s{}", bits);
    check_operation(integer_row("and" + b + " %z, %a, %b", bits, 2, [=](U x, U y, U) { return x & y; }));
    check_operation(integer_row("or" + b + " %z, %a, %b", bits, 2, [=](U x, U y, U) { return x | y; }));
    check_operation(integer_row("xor" + b + " %z, %a, %b", bits, 2, [=](U x, U y, U) { return x ^ y; }));
    check_operation(integer_row("not" + b + " %z, %a", bits, 1, [=](U x, U, U) { return cut(~x, bits); }));
    check_operation(integer_row("cnot" + b + " %z, %a", bits, 1, [=](U x, U, U) { return U{x == 0}; }));
    check_operation(integer_row("neg" + s + " %z, %a", bits, 1, [=](U x, U, U) { return cut(0 - x, bits); }));
    check_operation(
        integer_row("abs" + s + " %z, %a", bits, 1, [=](U x, U, U) { return cut(signed_of(x, bits) < 0 ? 0 - x : x, bits); }));
    check_operation({"shl" + b + " %z, %a, %b", bits / 8, {domain_of(bits), D::small}, [=](U x, U n, U) {
                       return n >= 64 ? 0 : cut(x << n, bits);
                     }});
  }
}

TEST(Alu, Bits) {
  const auto field = [](U a, U from, U count, int bits, bool is_signed) {
    from &= 255;
    count &= 255;
    U result = 0;
    const U sign_at = std::min<U>(from + count - 1, static_cast<U>(bits) - 1);
    for (int i = 0; i < bits; ++i) {
      U bit = count != 0 && is_signed ? a >> sign_at & 1 : 0;
      if (static_cast<U>(i) < count && from + static_cast<U>(i) < static_cast<U>(bits)) bit = a >> (from + static_cast<U>(i)) & 1;
      result |= bit << i;
    }
    return result;
  };
  for (int bits : {32, 64}) {
    const D d = domain_of(bits);
    check_operation({fmt::format("bfe.u{} %z, %a, %b, %c", bits), bits / 8, {d, D::small, D::small}, [=](U a, U b, U c) {
                       return field(a, b, c, bits, false);
                     }});
    check_operation({fmt::format("bfe.s{} %z, %a, %b, %c", bits), bits / 8, {d, D::small, D::small}, [=](U a, U b, U c) {
                       return field(a, b, c, bits, true);
                     }});
    check_operation({fmt::format("bfi.b{} %z, %a, %b, %c, 5", bits), bits / 8, {d, d, D::small}, [=](U a, U b, U c) {
                       U result = b;
                       for (U i = 0; i < 5; ++i) {
                         if ((c & 255) + i >= static_cast<U>(bits)) continue;
                         const U at = (c & 255) + i;
                         result = (result & ~(U{1} << at)) | (a >> i & 1) << at;
                       }
                       return result;
                     }});
    check_operation({fmt::format("brev.b{} %z, %a", bits), bits / 8, {d}, [=](U a, U, U) {
                       U result = 0;
                       for (int i = 0; i < bits; ++i) result = result << 1 | (a >> i & 1);
                       return result;
                     }});
    check_operation({fmt::format("popc.b{} %z, %a", bits), 4, {d}, [=](U a, U, U) {
                       U result = 0;
                       for (int i = 0; i < bits; ++i) result += a >> i & 1;
                       return result;
                     }});
    check_operation({fmt::format("clz.b{} %z, %a", bits), 4, {d}, [=](U a, U, U) {
                       U result = 0;
                       while (result < static_cast<U>(bits) && (a >> (static_cast<U>(bits) - 1 - result) & 1) == 0) ++result;
                       return result;
                     }});
    check_operation({fmt::format("bfind.u{} %z, %a", bits), 4, {d}, [=](U a, U, U) {
                       for (int i = bits - 1; i >= 0; --i) {
                         if ((a >> i & 1) != 0) return U(i);
                       }
                       return U{0xffffffff};
                     }});
  }
  const auto funnel = [](U low, U high) { return high << 32 | low; };
  check_operation({"shf.l.wrap.b32 %z, %a, %b, %c", 4, {D::integer32, D::integer32, D::small}, [=](U a, U b, U c) {
                     return cut(funnel(a, b) << (c & 31) >> 32, 32);
                   }});
  check_operation({"shf.r.wrap.b32 %z, %a, %b, %c", 4, {D::integer32, D::integer32, D::small}, [=](U a, U b, U c) {
                     return cut(funnel(a, b) >> (c & 31), 32);
                   }});
  check_operation({"shf.l.clamp.b32 %z, %a, %b, %c", 4, {D::integer32, D::integer32, D::small}, [=](U a, U b, U c) {
                     return cut(funnel(a, b) << std::min<U>(c, 32) >> 32, 32);
                   }});
  check_operation({"shf.r.clamp.b32 %z, %a, %b, %c", 4, {D::integer32, D::integer32, D::small}, [=](U a, U b, U c) {
                     return cut(funnel(a, b) >> std::min<U>(c, 32), 32);
                   }});
  check_operation({"prmt.b32 %z, %a, %b, %c", 4, {D::integer32, D::integer32, D::integer32}, [=](U a, U b, U c) {
                     U result = 0;
                     for (int i = 0; i < 4; ++i) {
                       const U s = c >> 4 * i & 15, byte = funnel(a, b) >> 8 * (s & 7) & 255;
                       result |= (s < 8 ? byte : byte >= 128 ? U{255} : U{0}) << 8 * i;
                     }
                     return result;
                   }});
  for (U table : {U{0x80}, U{0xe8}, U{0x96}, U{0x1b}}) {
    check_operation(
        {fmt::format("lop3.b32 %z, %a, %b, %c, {}", table), 4, {D::integer32, D::integer32, D::integer32}, [=](U a, U b, U c) {
           U result = 0;
           for (int i = 0; i < 32; ++i) result |= (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
           return result;
         }});
  }
}

// ---- reals ----
struct Real {
  D domain;
  Shape shape;
  std::string type;
  int bytes;
};
const Real kReals[] = {
    {D::f32, kSingle, ".f32", 4}, {D::f64, kDouble, ".f64", 8}, {D::f16, kHalf, ".f16", 2}, {D::bf16, kBrain, ".bf16", 2}};

double value_of(const Real& real, U bits) {
  if (real.domain == D::f64) return std::bit_cast<double>(bits);
  if (real.domain == D::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (real.domain == D::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16));
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double mantissa = static_cast<double>(bits & 1023), sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

U bits_of(const Real& real, double value) {
  if (real.domain == D::f64) return std::isnan(value) ? std::bit_cast<U>(value) : std::bit_cast<U>(value);
  if (std::isnan(value)) return real.domain == D::f32 ? 0x7fffffff : 0x7fff;
  const U single = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (real.domain == D::f32) return single;
  if (real.domain == D::bf16) return single >> 16;
  const U sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | 0x7c00;
  if (magnitude < 0x1p-14) return sign | static_cast<U>(std::ldexp(magnitude, 24));
  const int exponent = std::ilogb(magnitude);
  return sign | (static_cast<U>(exponent + 15) << 10) | (static_cast<U>(std::ldexp(magnitude, 10 - exponent)) & 1023);
}

double flushed(double x) { return std::fabs(x) < 0x1p-126 ? std::copysign(0.0, x) : x; }

// A result of exactly 0 keeps the sign that IEEE gives it: of the double operation, which is exact there.
double settle(const Exact& exact, double plain, const Real& real, Mode mode) {
  if (std::isnan(plain) || std::isinf(plain) || exact.high == 0) return plain;
  return round_exactly(exact, real.shape, mode);
}

double sum(const Real& real, double a, double b, Mode mode) {
  double plain = a + b;
  if (plain == 0 && a != 0 && mode == Mode::down) plain = -0.0;
  if (plain == 0 && a == 0 && std::signbit(a) != std::signbit(b) && mode == Mode::down) plain = -0.0;
  if (!std::isfinite(a) || !std::isfinite(b)) return plain;
  return settle(exact_sum(a, b), std::isfinite(plain) ? plain : 1, real, mode);
}
double product(const Real& real, double a, double b, Mode mode) {
  const double plain = a * b;
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return plain;
  return round_exactly({Quad(a) * b, 0}, real.shape, mode) * 1.0;
}
double fused(const Real& real, double a, double b, double c, Mode mode) {
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) return std::isfinite(a) && std::isfinite(b) ? c : a * b + c;
  const Quad p = Quad(a) * b;
  if (p == 0 || c == 0 || p + c == 0) {
    if (p == 0 && c == 0) return sum(real, a * b, c, mode);
    if (p + c == 0) return mode == Mode::down ? -0.0 : 0.0;
  }
  return round_exactly(exact_sum(p, c), real.shape, mode);
}

bool is_small_enough(const Real& real) {
  return real.domain != D::f64;
}  // a product of doubles has 106 bits, exact; a fused sum may not be

TEST(Alu, SumsProductsAndFusedSums) {
  for (const Real& real : kReals) {
    const bool has_rounding = real.domain == D::f32 || real.domain == D::f64;
    const std::vector<D> two(2, real.domain), three(3, real.domain);
    const std::string target = real.domain == D::bf16 ? "sm_90" : "sm_80";
    auto v = [&](U x) { return value_of(real, x); };
    auto row = [&](std::string text, const std::vector<D>& sources, Reference reference) {
      check_operation({std::move(text), real.bytes, sources, std::move(reference), target});
    };
    struct Named {
      const char* name;
      Mode mode;
    };
    for (const Named& named :
         {Named{".rn", Mode::nearest}, Named{".rz", Mode::zero}, Named{".rm", Mode::down}, Named{".rp", Mode::up}}) {
      if (!has_rounding && named.mode != Mode::nearest) continue;
      const Mode mode = named.mode;
      const std::string suffix = named.name + real.type;
      auto result = [&](double x) { return bits_of(real, x); };
      const auto same_nan = [&](Reference reference) -> Reference {  // a NaN of f64 keeps a payload, which is not asked for
        return reference;
      };
      if (real.domain == D::f64) continue;
      row("add" + suffix + " %z, %a, %b", two, same_nan([&](U a, U b, U) { return result(sum(real, v(a), v(b), mode)); }));
      row("sub" + suffix + " %z, %a, %b", two, same_nan([&](U a, U b, U) { return result(sum(real, v(a), -v(b), mode)); }));
      row("mul" + suffix + " %z, %a, %b", two, same_nan([&](U a, U b, U) { return result(product(real, v(a), v(b), mode)); }));
      if (is_small_enough(real))
        row("fma" + suffix + " %z, %a, %b, %c", three,
            same_nan([&](U a, U b, U c) { return result(fused(real, v(a), v(b), v(c), mode)); }));
    }
  }
}

TEST(Alu, DoublesAreTheHosts) {
  const std::vector<D> two(2, D::f64), three(3, D::f64);
  const auto v = [](U x) { return std::bit_cast<double>(x); };
  const auto is_nan = "setp.nan.f64 %q1, %z, %z; @%q1 mov.b64 %z, 0x7ff8000000000000";
  const auto result = [](double x) { return std::isnan(x) ? 0x7ff8000000000000 : std::bit_cast<U>(x); };
  check_operation({fmt::format("add.f64 %z, %a, %b; {}", is_nan), 8, two, [=](U a, U b, U) { return result(v(a) + v(b)); }});
  check_operation({fmt::format("mul.f64 %z, %a, %b; {}", is_nan), 8, two, [=](U a, U b, U) { return result(v(a) * v(b)); }});
  check_operation({fmt::format("div.rn.f64 %z, %a, %b; {}", is_nan), 8, two, [=](U a, U b, U) { return result(v(a) / v(b)); }});
  check_operation({fmt::format("fma.rn.f64 %z, %a, %b, %c; {}", is_nan), 8, three,
                   [=](U a, U b, U c) { return result(std::fma(v(a), v(b), v(c))); }});
}

TEST(Alu, FlushAndSaturation) {
  const Real& f = kReals[0];
  auto v = [&](U x) { return flushed(value_of(f, x)); };
  auto result = [&](double x) { return bits_of(f, flushed(x)); };
  auto unit = [](double x) { return x > 0 ? std::min(x, 1.0) : 0.0; };
  const std::vector<D> two(2, D::f32), three(3, D::f32);
  check_operation({"add.ftz.f32 %z, %a, %b", 4, two, [&](U a, U b, U) { return result(sum(f, v(a), v(b), Mode::nearest)); }});
  check_operation({"mul.ftz.f32 %z, %a, %b", 4, two, [&](U a, U b, U) { return result(product(f, v(a), v(b), Mode::nearest)); }});
  check_operation({"fma.rn.ftz.f32 %z, %a, %b, %c", 4, three,
                   [&](U a, U b, U c) { return result(fused(f, v(a), v(b), v(c), Mode::nearest)); }});
  check_operation({"add.sat.f32 %z, %a, %b", 4, two,
                   [&](U a, U b, U) { return bits_of(f, unit(sum(f, value_of(f, a), value_of(f, b), Mode::nearest))); }});
  check_operation({"max.ftz.f32 %z, %a, %b", 4, two, [&](U a, U b, U) {
                     if (std::isnan(v(a)) || std::isnan(v(b))) return result(std::isnan(v(a)) ? v(b) : v(a));
                     return v(a) == v(b) ? result(std::signbit(v(a)) ? v(b) : v(a)) : result(std::max(v(a), v(b)));
                   }});
}

TEST(Alu, QuotientsAndRoots) {
  const Real& f = kReals[0];
  auto v = [&](U x) { return value_of(f, x); };
  const auto quotient = [&](double a, double b, Mode mode) {
    if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return a / b;
    const Quad q = Quad(a) / b;
    return round_exactly({q, Quad(a) - q * b == 0 ? Quad(0) : (Quad(a) - q * b) / b}, f.shape, mode);
  };
  const auto root = [&](double a, Mode mode) {
    if (!(a > 0) || std::isinf(a)) return std::sqrt(a);
    Quad s = std::sqrt(a);
    for (int i = 0; i < 3; ++i) s = (s + Quad(a) / s) / 2;
    const Quad near = static_cast<double>(s);
    if (near * near == a) s = near;
    return round_exactly({s, 0}, f.shape, mode);
  };
  struct Named {
    const char* name;
    Mode mode;
  };
  for (const Named& named :
       {Named{".rn", Mode::nearest}, Named{".rz", Mode::zero}, Named{".rm", Mode::down}, Named{".rp", Mode::up}}) {
    const Mode mode = named.mode;
    check_operation({fmt::format("div{}.f32 %z, %a, %b", named.name), 4, {D::f32, D::f32}, [&](U a, U b, U) {
                       return bits_of(f, quotient(v(a), v(b), mode));
                     }});
    check_operation(
        {fmt::format("rcp{}.f32 %z, %a", named.name), 4, {D::f32}, [&](U a, U, U) { return bits_of(f, quotient(1, v(a), mode)); }});
    check_operation(
        {fmt::format("sqrt{}.f32 %z, %a", named.name), 4, {D::f32}, [&](U a, U, U) { return bits_of(f, root(v(a), mode)); }});
  }
}

TEST(Alu, SignsMinimaAndComparisons) {
  for (const Real& real : {kReals[0], kReals[2], kReals[3]}) {
    auto v = [&](U x) { return value_of(real, x); };
    auto result = [&](double x) { return bits_of(real, x); };
    const std::vector<D> one(1, real.domain), two(2, real.domain);
    auto row = [&](const std::string& name, int bytes, const std::vector<D>& sources, Reference reference,
                   const std::string& rest) {
      check_operation({name + real.type + rest, bytes, sources, std::move(reference), "sm_90"});
    };
    auto smaller = [&](double a, double b) { return a == b ? (std::signbit(a) ? a : b) : std::min(a, b); };
    row(
        "neg", real.bytes, one, [&](U a, U, U) { return result(-v(a)); }, " %z, %a");
    row(
        "abs", real.bytes, one, [&](U a, U, U) { return result(std::fabs(v(a))); }, " %z, %a");
    row(
        "min", real.bytes, two,
        [&](U a, U b, U) {
          return result(std::isnan(v(a)) ? v(b) : std::isnan(v(b)) ? v(a) : smaller(v(a), v(b)));
        },
        " %z, %a, %b");
    row(
        "min.NaN", real.bytes, two,
        [&](U a, U b, U) { return result(std::isnan(v(a)) || std::isnan(v(b)) ? NAN : smaller(v(a), v(b))); }, " %z, %a, %b");
    row(
        "max.NaN", real.bytes, two,
        [&](U a, U b, U) { return result(std::isnan(v(a)) || std::isnan(v(b)) ? NAN : -smaller(-v(a), -v(b))); }, " %z, %a, %b");
    row(
        "setp.lt", 4, two, [&](U a, U b, U) { return U{v(a) < v(b)}; }, " %q1, %a, %b; selp.u32 %z, 1, 0, %q1");
    row(
        "setp.geu", 4, two, [&](U a, U b, U) { return U{!(v(a) < v(b))}; }, " %q1, %a, %b; selp.u32 %z, 1, 0, %q1");
    row(
        "setp.ne", 4, two, [&](U a, U b, U) { return U{v(a) < v(b) || v(a) > v(b)}; }, " %q1, %a, %b; selp.u32 %z, 1, 0, %q1");
    row(
        "setp.equ", 4, two, [&](U a, U b, U) { return U{!(v(a) < v(b) || v(a) > v(b))}; }, " %q1, %a, %b; selp.u32 %z, 1, 0, %q1");
    row(
        "setp.num", 4, two, [&](U a, U b, U) { return U{!std::isnan(v(a)) && !std::isnan(v(b))}; },
        " %q1, %a, %b; selp.u32 %z, 1, 0, %q1");
  }
  for (const char* type : {"s32", "u32"}) {
    auto v = [&](U x) { return type[0] == 's' ? signed_of(x, 32) : static_cast<std::int64_t>(x); };
    check_operation({fmt::format("setp.le.{} %q1|%q2, %a, %b; selp.u32 %z, 1, 2, %q1; @%q2 add.u32 %z, %z, 4", type),
                     4,
                     {D::integer32, D::integer32},
                     [&](U a, U b, U) { return v(a) <= v(b) ? U{1} : U{6}; }});
  }
  check_operation({"setp.ne.s32 %q1, %c, 0; setp.gt.and.s32 %q2, %a, %b, !%q1; selp.b32 %z, %a, %b, %q2",
                   4,
                   {D::integer32, D::integer32, D::integer32},
                   [](U a, U b, U c) { return signed_of(a, 32) > signed_of(b, 32) && c == 0 ? a : b; }});
  check_operation(
      {"copysign.f32 %z, %a, %b", 4, {D::f32, D::f32}, [](U a, U b, U) { return (a & 0x80000000) | (b & 0x7fffffff); }});
  check_operation({"slct.b32.s32 %z, %a, %b, %c", 4, {D::integer32, D::integer32, D::integer32}, [](U a, U b, U c) {
                     return signed_of(c, 32) >= 0 ? a : b;
                   }});
}

TEST(Alu, PairsAreTheirHalves) {
  const Real &half = kReals[2], &single = kReals[0];
  const auto pack = "mov.b32 %r1, {%a, %b}; mov.b32 %r2, {%b, %c}; ";
  check_operation({fmt::format("{}add.rn.f16x2 %z, %r1, %r2", pack), 4, {D::f16, D::f16, D::f16}, [&](U a, U b, U c) {
                     const auto one = [&](U x, U y) {
                       return bits_of(half, sum(half, value_of(half, x), value_of(half, y), Mode::nearest));
                     };
                     return one(b, c) << 16 | one(a, b);
                   }});
  check_operation({fmt::format("{}fma.rn.f16x2 %z, %r1, %r2, %r1", pack), 4, {D::f16, D::f16, D::f16}, [&](U a, U b, U c) {
                     const auto one = [&](U x, U y) {
                       return bits_of(half, fused(half, value_of(half, x), value_of(half, y), value_of(half, x), Mode::nearest));
                     };
                     return one(b, c) << 16 | one(a, b);
                   }});
  check_operation({"fma.rn.f32.f16 %z, %a, %b, %c",
                   4,
                   {D::f16, D::f16, D::f32},
                   [&](U a, U b, U c) {
                     return bits_of(single,
                                    fused(single, value_of(half, a), value_of(half, b), value_of(single, c), Mode::nearest));
                   },
                   "sm_100",
                   "8.6"});
}

// Halves (a, b), (b, c) and (c, a).
TEST(Alu, PairsOfF32RoundEachHalf) {
  const Real& single = kReals[0];
  const auto row = [](const std::string& operation, const char* operands, const Reference& of_half) {
    const char* const pack = "mov.b64 %d1, {%a, %b}; mov.b64 %d2, {%b, %c}; mov.b64 %d3, {%c, %a}; ";
    check_operation({fmt::format("{}{}.f32x2 %z, {}", pack, operation, operands),
                     8,
                     {D::f32, D::f32, D::f32},
                     [&](U a, U b, U c) { return of_half(b, c, a) << 32 | of_half(a, b, c); },
                     "sm_100",
                     "8.6"});
  };
  struct Modifiers {
    const char* name;
    Mode mode;
    bool flushes;
  };
  for (const Modifiers& modifiers :
       {Modifiers{"", Mode::nearest, false}, Modifiers{".rn", Mode::nearest, false}, Modifiers{".rz", Mode::zero, false},
        Modifiers{".rm", Mode::down, false}, Modifiers{".rp", Mode::up, false}, Modifiers{".rn.ftz", Mode::nearest, true},
        Modifiers{".rz.ftz", Mode::zero, true}}) {
    const std::string name = modifiers.name;
    const Mode mode = modifiers.mode;
    const auto v = [&](U x) { return modifiers.flushes ? flushed(value_of(single, x)) : value_of(single, x); };
    const auto result = [&](double x) { return bits_of(single, modifiers.flushes ? flushed(x) : x); };
    row("add" + name, "%d1, %d2", [&](U a, U b, U) { return result(sum(single, v(a), v(b), mode)); });
    row("sub" + name, "%d1, %d2", [&](U a, U b, U) { return result(sum(single, v(a), -v(b), mode)); });
    row("mul" + name, "%d1, %d2", [&](U a, U b, U) { return result(product(single, v(a), v(b), mode)); });
    if (!name.empty())
      row("fma" + name, "%d1, %d2, %d3", [&](U a, U b, U c) { return result(fused(single, v(a), v(b), v(c), mode)); });
  }
}

// ---- approximate ones: within the documented bound, also when errors are asked for ----
struct Approximate {
  const char* text;
  double (*exact)(double);
  double relative, absolute;
};

TEST(Alu, ApproximationsStayWithinTheirBounds) {
  const Approximate rows[] = {
      {"rcp.approx.f32", [](double x) { return 1 / x; }, 0x1p-23, 0},
      {"sqrt.approx.f32", [](double x) { return std::sqrt(x); }, 0x1p-23, 0},
      {"rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }, 0x1.13p-23, 0},
      {"ex2.approx.f32", [](double x) { return std::exp2(x); }, 0x1p-22, 0},
      {"tanh.approx.f32", [](double x) { return std::tanh(x); }, 0x1p-11, 0},
      {"sin.approx.f32", [](double x) { return std::sin(x); }, 0, 0x1.6bp-21},
      {"lg2.approx.f32", [](double x) { return std::log2(x); }, 0x1p-22, 0x1p-22},
  };
  for (const Approximate& row : rows) {
    std::vector<std::uint32_t> results[4];
    std::vector<float> inputs;
    for (int i = 0; i < 2048; ++i) inputs.push_back(0.01f + 0.0029f * static_cast<float>(i));
    for (ApproximateError error :
         {ApproximateError::none, ApproximateError::lowest, ApproximateError::highest, ApproximateError::random}) {
      Bench bench;
      const auto in = bench.buffer_of(inputs), out = bench.buffer(4 * inputs.size());
      LaunchOptions options;
      options.approximate_error = error;
      const std::string body = fmt::format(
          "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 256, %t; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %p0, %d1; ld.global.f32 "
          "%r2, [%d2]; "
          "{} %r3, %r2; add.u64 %d2, %p1, %d1; st.global.f32 [%d2], %r3;",
          row.text);
      ASSERT_EQ(fault_text(bench.run(kernel_text(2, body), {in, out}, shape_of(8, 256), options)), "");
      results[static_cast<std::size_t>(error)] = bench.values<std::uint32_t>(out, inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const double exact = row.exact(inputs[i]), got = std::bit_cast<float>(results[static_cast<std::size_t>(error)][i]);
        const double room = row.relative * std::fabs(exact) + row.absolute;
        ASSERT_LE(std::fabs(got - exact), room) << row.text << " of " << inputs[i];
      }
    }
    EXPECT_NE(results[1], results[2]) << row.text << ": errors are really put in";
    EXPECT_NE(results[0], results[3]) << row.text;
  }
}

}  // namespace
}  // namespace headnorm::emulator::test
