// Decoding of exact floating-point instructions, and of the integer ones that share their names.
#include <array>

#include "emulator/machine/alu.h"
#include "emulator/machine/approximate.h"
#include "emulator/machine/decoding.h"
#include "emulator/machine/lanes.h"
#include "emulator/machine/type_dispatch.h"

namespace headnorm::emulator {
namespace {

using alu::Flush;
using alu::NanRule;
using alu::Saturate;

void operands(Decoding& d, Type type, std::size_t sources) {
  d.op.kind = Kind::floating;
  d.expect_operands(sources + 1, sources + 1);
  d.op.to = d.write(0, type);
  for (std::size_t i = 0; i < sources; ++i) d.op.from[i] = d.read(i + 1, type);
}

struct Modes {
  std::optional<Rounding> rounding;
  Flush flush = Flush::no;
  Saturate saturate = Saturate::no;
};

Modes take_modes(Decoding& d) {
  Modes modes;
  const std::string_view rounding = d.take_any({"rn", "rz", "rm", "rp"});
  if (rounding == "rn") modes.rounding = Rounding::nearest_even;
  if (rounding == "rz") modes.rounding = Rounding::zero;
  if (rounding == "rm") modes.rounding = Rounding::down;
  if (rounding == "rp") modes.rounding = Rounding::up;
  if (d.take("ftz")) modes.flush = Flush::yes;
  if (d.take("sat")) modes.saturate = Saturate::yes;
  return modes;
}

bool is_directed(const Modes& modes) { return modes.rounding && *modes.rounding != Rounding::nearest_even; }

// Rounding to other than nearest: options are operation, rounding, flush and saturate.
template <class T>
T directed_lane(const Operation& operation, T a, T b, T c) {
  const auto arithmetic = static_cast<Arithmetic>(operation.options[0]);
  const auto rounding = static_cast<Rounding>(operation.options[1]);
  if constexpr (std::is_same_v<T, float>) {
    const bool flushes = (operation.options[2] & 1) != 0;
    if (flushes) {
      a = flush(a);
      b = flush(b);
      c = flush(c);
    }
    float result = directed(arithmetic, rounding, a, b, c);
    if ((operation.options[2] & 2) != 0) result = alu::out<Flush::no, Saturate::yes>(result);
    return flushes ? flush(result) : result;
  } else {
    return directed(arithmetic, rounding, a, b, c);
  }
}

template <class T, std::size_t Sources>
T directed_of(const Operation& operation, T a, T b, T c) {
  if constexpr (std::is_same_v<T, Float2>) {
    return {directed_of<float, Sources>(operation, a.low, b.low, c.low),
            directed_of<float, Sources>(operation, a.high, b.high, c.high)};
  } else if constexpr (Sources == 1) {
    const bool is_reciprocal = static_cast<Arithmetic>(operation.options[0]) == Arithmetic::divide;
    return is_reciprocal ? directed_lane<T>(operation, 1, a, 0) : directed_lane<T>(operation, a, 0, 0);
  } else {
    return directed_lane<T>(operation, a, operation.options[3] != 0 ? -b : b, c);
  }
}

template <class T, std::size_t Sources>
Step run_directed(Context& context, const Operation& operation, std::uint32_t mask) {
  const LaneArray<T> a(context.slot(operation.from[0])), b(context.slot(operation.from[Sources > 1 ? 1 : 0])),
      c(context.slot(operation.from[Sources > 2 ? 2 : 0]));
  Storage<T> result[kLanes];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    result[lane] = to_storage<T>(directed_of<T, Sources>(operation, a[lane], b[lane], c[lane]));
  store_lanes(context.slot(operation.to), result, mask);
  return Step::advance;
}

template <std::size_t Sources>
void set_directed(Decoding& d, Type type, Arithmetic arithmetic, const Modes& modes) {
  d.op.options = {static_cast<std::uint8_t>(arithmetic), static_cast<std::uint8_t>(*modes.rounding),
                  static_cast<std::uint8_t>((modes.flush == Flush::yes ? 1 : 0) | (modes.saturate == Saturate::yes ? 2 : 0)), 0};
  if (type == Type::f32) {
    d.op.run = &run_directed<float, Sources>;
  } else if (type == Type::f64) {
    d.op.run = &run_directed<double, Sources>;
  } else if (type == Type::f32x2 && arithmetic != Arithmetic::divide && Sources > 1 && modes.saturate == Saturate::no) {
    d.op.run = &run_directed<Float2, Sources>;
  } else {
    d.fail("this rounding is supported for .f32, .f64 and sums and products of .f32x2 only");
  }
}

// The six forms of add, sub, mul: by type, with flush and saturation where the type has them.
#define HEADNORM_SUM_CHOICE(name, function, each)                                                                            \
  template <Flush F, Saturate S>                                                                                             \
  Run name(Type type) {                                                                                                      \
    switch (type) {                                                                                                          \
      case Type::f32:                                                                                                        \
        return lanes_of<&alu::function<F, S, float>>();                                                                      \
      case Type::f64:                                                                                                        \
        return lanes_of<&alu::function<Flush::no, Saturate::no, double>>();                                                  \
      case Type::f16:                                                                                                        \
        return lanes_of<&alu::function<F, S, Half>>();                                                                       \
      case Type::bf16:                                                                                                       \
        return lanes_of<&alu::function<Flush::no, Saturate::no, Brain>>();                                                   \
      case Type::f16x2:                                                                                                      \
        return lanes_of<&alu::each<&alu::function<F, S, Half>, Half>>();                                                     \
      case Type::bf16x2:                                                                                                     \
        return lanes_of<&alu::each<&alu::function<Flush::no, Saturate::no, Brain>, Brain>>();                                \
      case Type::f32x2:                                                                                                      \
        return S == Saturate::yes ? nullptr : lanes_of<&alu::each<&alu::function<F, Saturate::no, float>, float>>();         \
      default:                                                                                                               \
        return nullptr;                                                                                                      \
    }                                                                                                                        \
  }                                                                                                                          \
  Run name(Type type, const Modes& modes) {                                                                                  \
    if (modes.flush == Flush::yes)                                                                                           \
      return modes.saturate == Saturate::yes ? name<Flush::yes, Saturate::yes>(type) : name<Flush::yes, Saturate::no>(type); \
    return modes.saturate == Saturate::yes ? name<Flush::no, Saturate::yes>(type) : name<Flush::no, Saturate::no>(type);     \
  }
HEADNORM_SUM_CHOICE(add_choice, fadd, each2)
HEADNORM_SUM_CHOICE(sub_choice, fsub, each2)
HEADNORM_SUM_CHOICE(mul_choice, fmul, each2)
HEADNORM_SUM_CHOICE(fma_choice, ffma, each3)
#undef HEADNORM_SUM_CHOICE

using Choice = Run (*)(Type, const Modes&);

void set_run(Decoding& d, Run run) {
  d.op.run = run;
  if (run == nullptr) d.fail("the type is not supported");
}

// add.f32.f16 d, a, c and fma.f32.f16 d, a, b, c: the last source and the result are f32, the others narrower.
template <class T>
float widened(T a) {
  return canonical(wide(a));
}

template <class T, Arithmetic A, Saturate S>
Step run_mixed(Context& context, const Operation& operation, std::uint32_t mask) {
  const LaneArray<T> a(context.slot(operation.from[0])), b(context.slot(operation.from[1]));
  const LaneArray<float> c(context.slot(operation.from[2]));
  std::uint32_t result[kLanes];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const float addend = operation.options[0] != 0 ? -c[lane] : c[lane];
    const float sum = A == Arithmetic::fused ? __builtin_fmaf(wide(a[lane]), wide(b[lane]), addend) : wide(a[lane]) + addend;
    result[lane] = bits_of(alu::out<Flush::no, S>(sum));
  }
  store_lanes(context.slot(operation.to), result, mask);
  return Step::advance;
}

template <Arithmetic A>
void mixed(Decoding& d, Type narrow, const Modes& modes, bool subtracts) {
  constexpr std::size_t kNarrow = A == Arithmetic::fused ? 2 : 1;
  d.op.kind = Kind::floating;
  d.expect_operands(kNarrow + 2, kNarrow + 2);
  if (modes.flush == Flush::yes || is_directed(modes)) d.fail("mixed precision is supported with .rn, without .ftz");
  d.op.to = d.write(0, Type::f32);
  d.op.from[0] = d.op.from[1] = d.read(1, narrow);
  if (kNarrow == 2) d.op.from[1] = d.read(2, narrow);
  d.op.from[2] = d.read(kNarrow + 1, Type::f32);
  d.op.options[0] = subtracts ? 1 : 0;
  const bool saturates = modes.saturate == Saturate::yes;
  if (narrow == Type::f16) {
    d.op.run = saturates ? &run_mixed<Half, A, Saturate::yes> : &run_mixed<Half, A, Saturate::no>;
  } else if (narrow == Type::bf16) {
    d.op.run = saturates ? &run_mixed<Brain, A, Saturate::yes> : &run_mixed<Brain, A, Saturate::no>;
  } else {
    d.fail("the type is not supported");
  }
}

void sum(Decoding& d, IntegerOperation integer, Arithmetic arithmetic, Choice choice) {
  const Type type = d.type();
  if (is_integer(type)) return decode_integer(d, type, integer);
  const Modes modes = take_modes(d);
  if (const std::optional<Type> narrow = d.take_type()) {
    if (type != Type::f32 || arithmetic != Arithmetic::add) return d.fail("two types are not supported here");
    return mixed<Arithmetic::add>(d, *narrow, modes, integer == IntegerOperation::sub);
  }
  operands(d, type, 2);
  if (!is_directed(modes)) return set_run(d, choice(type, modes));
  set_directed<2>(d, type, arithmetic, modes);
  d.op.options[3] = integer == IntegerOperation::sub ? 1 : 0;
}

void add(Decoding& d) { sum(d, IntegerOperation::add, Arithmetic::add, &add_choice); }
void sub(Decoding& d) { sum(d, IntegerOperation::sub, Arithmetic::add, &sub_choice); }
void mul(Decoding& d) { sum(d, IntegerOperation::mul, Arithmetic::multiply, &mul_choice); }

void fused(Decoding& d, Type type) {
  const Modes modes = take_modes(d);
  if (const std::optional<Type> narrow = d.take_type()) {
    if (type != Type::f32) return d.fail("two types are not supported here");
    return mixed<Arithmetic::fused>(d, *narrow, modes, false);
  }
  const bool is_relu = d.take("relu");
  operands(d, type, 3);
  if (is_directed(modes)) return set_directed<3>(d, type, Arithmetic::fused, modes);
  if (!is_relu) return set_run(d, fma_choice(type, modes));
  if (type == Type::f16) return set_run(d, lanes_of<&alu::fma_relu<Flush::no, Half>>());
  if (type == Type::bf16) return set_run(d, lanes_of<&alu::fma_relu<Flush::no, Brain>>());
  if (type == Type::f16x2) return set_run(d, lanes_of<&alu::each3<&alu::fma_relu<Flush::no, Half>, Half>>());
  if (type == Type::bf16x2) return set_run(d, lanes_of<&alu::each3<&alu::fma_relu<Flush::no, Brain>, Brain>>());
  d.fail("the type is not supported");
}

void fma(Decoding& d) { fused(d, d.type()); }
void mad(Decoding& d) {
  const Type type = d.type();
  if (is_integer(type)) return decode_integer(d, type, IntegerOperation::mad);
  fused(d, type);
}

void div(Decoding& d) {
  const Type type = d.type();
  if (is_integer(type)) return decode_integer(d, type, IntegerOperation::div);
  const std::string_view form = d.take_any({"approx", "full"});
  const Modes modes = take_modes(d);
  operands(d, type, 2);
  if (!form.empty()) {
    if (type != Type::f32) return d.fail("the type is not supported");
    return set_run(d, approximate_divide(modes.flush));
  }
  if (is_directed(modes)) return set_directed<2>(d, type, Arithmetic::divide, modes);
  if (!modes.rounding) return d.fail("a division names .rn or another rounding, .approx or .full");
  if (type == Type::f64) return set_run(d, lanes_of<&alu::fdiv<Flush::no, double>>());
  if (type != Type::f32) return d.fail("the type is not supported");
  set_run(d, modes.flush == Flush::yes ? lanes_of<&alu::fdiv<Flush::yes, float>>() : lanes_of<&alu::fdiv<Flush::no, float>>());
}

void root_or_reciprocal(Decoding& d, Arithmetic arithmetic, Run flushed, Run plain, Run doubled, Approximation approximation) {
  const Type type = d.type();
  const bool is_approximate = d.take("approx");
  const Modes modes = take_modes(d);
  operands(d, type, 1);
  if (is_approximate) return set_run(d, approximate(approximation, type, modes.flush));
  if (!modes.rounding) return d.fail("a rounding or .approx is missing");
  if (is_directed(modes)) return set_directed<1>(d, type, arithmetic, modes);
  if (type == Type::f64) return set_run(d, doubled);
  if (type != Type::f32) return d.fail("the type is not supported");
  set_run(d, modes.flush == Flush::yes ? flushed : plain);
}

void sqrt(Decoding& d) {
  root_or_reciprocal(d, Arithmetic::square_root, lanes_of<&alu::fsqrt<Flush::yes, float>>(),
                     lanes_of<&alu::fsqrt<Flush::no, float>>(), lanes_of<&alu::fsqrt<Flush::no, double>>(), Approximation::sqrt);
}
void rcp(Decoding& d) {
  root_or_reciprocal(d, Arithmetic::divide, lanes_of<&alu::frcp<Flush::yes, float>>(), lanes_of<&alu::frcp<Flush::no, float>>(),
                     lanes_of<&alu::frcp<Flush::no, double>>(), Approximation::rcp);
}

template <Approximation A>
void approximate_only(Decoding& d) {
  const Type type = d.type();
  if (!d.take("approx")) return d.fail("only .approx is supported");
  const Flush flush = d.take("ftz") ? Flush::yes : Flush::no;
  operands(d, type, 1);
  set_run(d, approximate(A, type, flush));
}

// neg and abs: one source, flush.
#define HEADNORM_SIGN_DECODER(name, function, integer)                                      \
  template <Flush F>                                                                        \
  Run name##_choice(Type type) {                                                            \
    switch (type) {                                                                         \
      case Type::f32:                                                                       \
        return lanes_of<&alu::function<F, float>>();                                        \
      case Type::f64:                                                                       \
        return lanes_of<&alu::function<Flush::no, double>>();                               \
      case Type::f16:                                                                       \
        return lanes_of<&alu::function<F, Half>>();                                         \
      case Type::bf16:                                                                      \
        return lanes_of<&alu::function<Flush::no, Brain>>();                                \
      case Type::f16x2:                                                                     \
        return lanes_of<&alu::each1<&alu::function<F, Half>, Half>>();                      \
      case Type::bf16x2:                                                                    \
        return lanes_of<&alu::each1<&alu::function<Flush::no, Brain>, Brain>>();            \
      default:                                                                              \
        return nullptr;                                                                     \
    }                                                                                       \
  }                                                                                         \
  void name(Decoding& d) {                                                                  \
    const Type type = d.type();                                                             \
    if (is_integer(type)) return decode_integer(d, type, integer);                          \
    const bool flushes = d.take("ftz");                                                     \
    operands(d, type, 1);                                                                   \
    set_run(d, flushes ? name##_choice<Flush::yes>(type) : name##_choice<Flush::no>(type)); \
  }
HEADNORM_SIGN_DECODER(neg, fneg, IntegerOperation::neg)
HEADNORM_SIGN_DECODER(abs, fabs_of, IntegerOperation::abs)
#undef HEADNORM_SIGN_DECODER

#define HEADNORM_BOUND_DECODER(name, function, three, integer)                                   \
  template <Flush F, NanRule N>                                                                  \
  Run name##_choice(Type type, std::size_t sources) {                                            \
    if (sources == 3) return type == Type::f32 ? lanes_of<&alu::three<F, N, float>>() : nullptr; \
    switch (type) {                                                                              \
      case Type::f32:                                                                            \
        return lanes_of<&alu::function<F, N, float>>();                                          \
      case Type::f64:                                                                            \
        return lanes_of<&alu::function<Flush::no, NanRule::other, double>>();                    \
      case Type::f16:                                                                            \
        return lanes_of<&alu::function<F, N, Half>>();                                           \
      case Type::bf16:                                                                           \
        return lanes_of<&alu::function<Flush::no, N, Brain>>();                                  \
      case Type::f16x2:                                                                          \
        return lanes_of<&alu::each2<&alu::function<F, N, Half>, Half>>();                        \
      case Type::bf16x2:                                                                         \
        return lanes_of<&alu::each2<&alu::function<Flush::no, N, Brain>, Brain>>();              \
      default:                                                                                   \
        return nullptr;                                                                          \
    }                                                                                            \
  }                                                                                              \
  void name(Decoding& d) {                                                                       \
    const Type type = d.type();                                                                  \
    if (is_integer(type)) return decode_integer(d, type, integer);                               \
    const bool flushes = d.take("ftz"), is_nan = d.take("NaN");                                  \
    const std::size_t sources = d.operand_count() == 4 ? 3 : 2;                                  \
    operands(d, type, sources);                                                                  \
    if (flushes)                                                                                 \
      return set_run(d, is_nan ? name##_choice<Flush::yes, NanRule::nan>(type, sources)          \
                               : name##_choice<Flush::yes, NanRule::other>(type, sources));      \
    set_run(d, is_nan ? name##_choice<Flush::no, NanRule::nan>(type, sources)                    \
                      : name##_choice<Flush::no, NanRule::other>(type, sources));                \
  }
HEADNORM_BOUND_DECODER(min, fmin_of, fmin3, IntegerOperation::min)
HEADNORM_BOUND_DECODER(max, fmax_of, fmax3, IntegerOperation::max)
#undef HEADNORM_BOUND_DECODER

void copysign(Decoding& d) {
  const Type type = d.type();
  operands(d, type, 2);
  if (type != Type::f32 && type != Type::f64) return d.fail("the type is not supported");
  d.op.run = type == Type::f32 ? lanes_of<&alu::copy_sign<float>>() : lanes_of<&alu::copy_sign<double>>();
}

template <class T>
T number_class(const Operation& operation, T value) {
  constexpr int kClasses[] = {FP_INFINITE, FP_NAN, FP_NORMAL, FP_SUBNORMAL};
  const int is = std::fpclassify(value);
  if (operation.options[0] < 4) return is == kClasses[operation.options[0]] ? T{1} : T{0};
  const bool is_number = is != FP_NAN;
  if (operation.options[0] == 4) return is_number && is != FP_INFINITE ? T{1} : T{0};
  return is_number ? T{1} : T{0};
}

template <class T>
Step run_test(Context& context, const Operation& operation, std::uint32_t mask) {
  const LaneArray<T> a(context.slot(operation.from[0]));
  std::uint32_t result = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    result |= number_class<T>(operation, a[lane]) != 0 ? std::uint32_t{1} << lane : 0;
  context.set_mask(operation.to, result, mask);
  return Step::advance;
}

void testp(Decoding& d) {
  constexpr std::array<std::string_view, 6> kNames = {"infinite", "notanumber", "normal", "subnormal", "finite", "number"};
  std::size_t chosen = 0;
  while (chosen < kNames.size() && !d.take(kNames[chosen])) ++chosen;
  if (chosen == kNames.size()) return d.fail("testp does not say for what");
  d.op.options[0] = static_cast<std::uint8_t>(chosen);
  const Type type = d.type();
  d.op.kind = Kind::compare;
  d.expect_operands(2, 2);
  d.op.to = d.write(0, Type::pred);
  d.op.from[0] = d.read(1, type);
  if (type != Type::f32 && type != Type::f64) return d.fail("the type is not supported");
  d.op.run = type == Type::f32 ? &run_test<float> : &run_test<double>;
}

}  // namespace

const DecoderTable& real_decoders() {
  static const DecoderTable kTable = {
      {"add", add},
      {"sub", sub},
      {"mul", mul},
      {"fma", fma},
      {"mad", mad},
      {"div", div},
      {"sqrt", sqrt},
      {"rcp", rcp},
      {"neg", neg},
      {"abs", abs},
      {"min", min},
      {"max", max},
      {"copysign", copysign},
      {"testp", testp},
      {"rsqrt", approximate_only<Approximation::rsqrt>},
      {"ex2", approximate_only<Approximation::ex2>},
      {"lg2", approximate_only<Approximation::lg2>},
      {"sin", approximate_only<Approximation::sin>},
      {"cos", approximate_only<Approximation::cos>},
      {"tanh", approximate_only<Approximation::tanh>},
  };
  return kTable;
}

}  // namespace headnorm::emulator
