// Runs a scalar function over the lanes of a warp: Lanes<&function>::run and, for processors with AVX2 and FMA, run_fast.
//
// All 32 lanes are computed and those outside the mask thrown away, so the functions must be harmless for any bits.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "emulator/machine/context.h"
#include "emulator/machine/kernel.h"
#include "emulator/machine/values.h"

namespace headnorm::emulator {

template <class T>
using Storage = std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>;

template <class T>
inline T from_storage(Storage<T> stored) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(stored);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(static_cast<std::uint16_t>(stored));
  } else {
    return std::bit_cast<T>(stored);
  }
}

template <class T>
inline Storage<T> to_storage(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<std::uint16_t>(value);
  } else {
    return std::bit_cast<Storage<T>>(value);
  }
}

template <class S>
inline void store_lanes(std::byte* slot, const S (&values)[kLanes], std::uint32_t mask) {
  if (mask == kFullMask) {
    std::memcpy(slot, values, sizeof values);
    return;
  }
  S merged[kLanes];
  std::memcpy(merged, slot, sizeof merged);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) merged[lane] = (mask >> lane & 1) != 0 ? values[lane] : merged[lane];
  std::memcpy(slot, merged, sizeof merged);
}

template <class T>
struct LaneArray {
  Storage<T> stored[kLanes];
  explicit LaneArray(const std::byte* slot) { std::memcpy(stored, slot, sizeof stored); }
  T operator[](std::uint32_t lane) const { return from_storage<T>(stored[lane]); }
};

template <auto F>
struct Lanes;

template <class R, class... A, R (*F)(A...)>
struct Lanes<F> {
  template <std::size_t... I>
  [[gnu::always_inline]] static void compute(Context& context, const Operation& operation, std::uint32_t mask,
                                             std::index_sequence<I...>) {
    const std::tuple<LaneArray<A>...> from{LaneArray<A>(context.slot(operation.from[I]))...};
    alignas(64) Storage<R> result[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) result[lane] = to_storage<R>(F(std::get<I>(from)[lane]...));
    store_lanes(context.slot(operation.to), result, mask);
  }

  static Step run(Context& context, const Operation& operation, std::uint32_t mask) {
    compute(context, operation, mask, std::index_sequence_for<A...>());
    return Step::advance;
  }
  [[gnu::target("avx2,fma")]] static Step run_fast(Context& context, const Operation& operation, std::uint32_t mask) {
    compute(context, operation, mask, std::index_sequence_for<A...>());
    return Step::advance;
  }
};

// A comparison sets masks. options[0]: how the result is combined with the predicate from[2]: 0 not, 1 and, 2 or, 3 xor;
// options[1]: 1 where that predicate is negated.
template <auto F>
struct Compare;

template <class A, bool (*F)(A, A)>
struct Compare<F> {
  [[gnu::always_inline]] static void compute(Context& context, const Operation& operation, std::uint32_t mask) {
    const LaneArray<A> a(context.slot(operation.from[0])), b(context.slot(operation.from[1]));
    std::uint32_t bits[kLanes], result = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) bits[lane] = F(a[lane], b[lane]) ? std::uint32_t{1} << lane : 0;
    for (std::uint32_t bit : bits) result |= bit;
    std::uint32_t inverse = ~result;
    if (operation.options[0] != 0) {
      const std::uint32_t other = context.mask(operation.from[2]) ^ (operation.options[1] != 0 ? kFullMask : 0);
      const auto combine = [&](std::uint32_t x) {
        return operation.options[0] == 1 ? x & other : operation.options[0] == 2 ? x | other : x ^ other;
      };
      result = combine(result);
      inverse = combine(inverse);
    }
    context.set_mask(operation.to, result, mask);
    context.set_mask(operation.also_to, inverse, mask);
  }

  static Step run(Context& context, const Operation& operation, std::uint32_t mask) {
    compute(context, operation, mask);
    return Step::advance;
  }
  [[gnu::target("avx2,fma")]] static Step run_fast(Context& context, const Operation& operation, std::uint32_t mask) {
    compute(context, operation, mask);
    return Step::advance;
  }
};

inline bool has_fast_lanes() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has;
}

template <auto F>
Run lanes_of() {
  return has_fast_lanes() ? &Lanes<F>::run_fast : &Lanes<F>::run;
}
template <auto F>
Run compare_of() {
  return has_fast_lanes() ? &Compare<F>::run_fast : &Compare<F>::run;
}

}  // namespace headnorm::emulator
