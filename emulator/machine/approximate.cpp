#include "emulator/machine/approximate.h"

#include "emulator/machine/context.h"
#include "emulator/machine/lanes.h"

namespace headnorm::emulator {
namespace {

using alu::Flush;

struct Bound {
  double relative = 0, absolute = 0;
};

double exact(Approximation approximation, double x) {
  switch (approximation) {
    case Approximation::rcp:
      return 1 / x;
    case Approximation::sqrt:
      return std::sqrt(x);
    case Approximation::rsqrt:
      return 1 / std::sqrt(x);
    case Approximation::ex2:
      return std::exp2(x);
    case Approximation::lg2:
      return std::log2(x);
    case Approximation::sin:
      return std::sin(x);
    case Approximation::cos:
      return std::cos(x);
    case Approximation::tanh:
      return std::tanh(x);
  }
  return x;
}

template <class T>
Bound bound_of(Approximation approximation, double x) {
  const bool is_half = std::is_same_v<T, Half>, is_brain = std::is_same_v<T, Brain>;
  switch (approximation) {
    case Approximation::rcp:
    case Approximation::sqrt:
      return {0x1p-23, 0};
    case Approximation::rsqrt:
      return {std::exp2(-22.9), 0};
    case Approximation::ex2:
      return {is_half ? std::exp2(-9.9) : is_brain ? 0x1p-7 : 0x1p-22, 0};
    case Approximation::lg2:
      return x > 0.5 && x < 2 ? Bound{0, 0x1p-22} : Bound{0x1p-22, 0};
    case Approximation::sin:
    case Approximation::cos:
      return {0, std::exp2(-20.5)};
    case Approximation::tanh:
      return is_half ? Bound{0, std::exp2(-10.987)} : is_brain ? Bound{0, 0x1p-8} : Bound{0x1p-11, 0};
  }
  return {};
}

// -1 to 1: where in the bound.
double direction(Launch& launch) {
  switch (launch.options.approximate_error) {
    case ApproximateError::none:
      return 0;
    case ApproximateError::lowest:
      return -1;
    case ApproximateError::highest:
      return 1;
    case ApproximateError::random:
      break;
  }
  return std::uniform_real_distribution<double>(-1, 1)(launch.random);
}

// The result moved within the bound; rounding it after is kept inside too, so half a unit in the last place is taken off first.
template <class T>
double moved(Launch& launch, double result, const Bound& bound) {
  if (launch.options.approximate_error == ApproximateError::none || !std::isfinite(result) || result == 0) return result;
  constexpr double kHalfUnit = std::is_same_v<T, Half> ? 0x1p-11 : std::is_same_v<T, Brain> ? 0x1p-8 : 0x1p-24;
  const double room = bound.relative * std::fabs(result) + bound.absolute - kHalfUnit * std::fabs(result);
  return room > 0 ? result + direction(launch) * room : result;
}

template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, float>) return canonical(static_cast<float>(value));
  if constexpr (std::is_same_v<T, Half>)
    return Half{static_cast<std::uint16_t>(round_to(value, kF16, Rounding::nearest_even, Overflow::to_infinity))};
  if constexpr (std::is_same_v<T, Brain>)
    return Brain{static_cast<std::uint16_t>(round_to(value, kBf16, Rounding::nearest_even, Overflow::to_infinity))};
}

template <Approximation A, class T, Flush F>
T one(Launch& launch, T value) {
  const double x = wide(alu::in<F>(value));
  return alu::in<F>(rounded<T>(moved<T>(launch, exact(A, x), bound_of<T>(A, x))));
}

template <Approximation A, class T, Flush F>
Step run_approximate(Context& context, const Operation& operation, std::uint32_t mask) {
  const LaneArray<T> a(context.slot(operation.from[0]));
  Storage<T> result[kLanes] = {};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) result[lane] = to_storage<T>(one<A, T, F>(context.launch, a[lane]));
  }
  store_lanes(context.slot(operation.to), result, mask);
  return Step::advance;
}

template <Approximation A, class T>
Step run_pair(Context& context, const Operation& operation, std::uint32_t mask) {
  const LaneArray<Pair<T>> a(context.slot(operation.from[0]));
  std::uint32_t result[kLanes] = {};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const Pair<T> pair{one<A, T, Flush::no>(context.launch, a[lane].low), one<A, T, Flush::no>(context.launch, a[lane].high)};
    result[lane] = to_storage<Pair<T>>(pair);
  }
  store_lanes(context.slot(operation.to), result, mask);
  return Step::advance;
}

template <Flush F>
Step run_divide(Context& context, const Operation& operation, std::uint32_t mask) {
  const LaneArray<float> a(context.slot(operation.from[0])), b(context.slot(operation.from[1]));
  std::uint32_t result[kLanes] = {};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const double quotient = double{alu::in<F>(a[lane])} / alu::in<F>(b[lane]);
    result[lane] = bits_of(alu::in<F>(rounded<float>(moved<float>(context.launch, quotient, {0x1p-23, 0}))));
  }
  store_lanes(context.slot(operation.to), result, mask);
  return Step::advance;
}

template <Approximation A>
Run choose(ptx::Type type, Flush flush) {
  constexpr bool kHasHalf = A == Approximation::ex2 || A == Approximation::tanh;
  if (type == ptx::Type::f32)
    return flush == Flush::yes ? &run_approximate<A, float, Flush::yes> : &run_approximate<A, float, Flush::no>;
  if (!kHasHalf) return nullptr;
  switch (type) {
    case ptx::Type::f16:
      return &run_approximate<A, Half, Flush::no>;
    case ptx::Type::bf16:
      return &run_approximate<A, Brain, Flush::no>;
    case ptx::Type::f16x2:
      return &run_pair<A, Half>;
    case ptx::Type::bf16x2:
      return &run_pair<A, Brain>;
    default:
      return nullptr;
  }
}

}  // namespace

Run approximate(Approximation approximation, ptx::Type type, Flush flush) {
  switch (approximation) {
    case Approximation::rcp:
      return choose<Approximation::rcp>(type, flush);
    case Approximation::sqrt:
      return choose<Approximation::sqrt>(type, flush);
    case Approximation::rsqrt:
      return choose<Approximation::rsqrt>(type, flush);
    case Approximation::ex2:
      return choose<Approximation::ex2>(type, flush);
    case Approximation::lg2:
      return choose<Approximation::lg2>(type, flush);
    case Approximation::sin:
      return choose<Approximation::sin>(type, flush);
    case Approximation::cos:
      return choose<Approximation::cos>(type, flush);
    case Approximation::tanh:
      return choose<Approximation::tanh>(type, flush);
  }
  return nullptr;
}

Run approximate_divide(Flush flush) { return flush == Flush::yes ? &run_divide<Flush::yes> : &run_divide<Flush::no>; }

}  // namespace headnorm::emulator
