// The calling thread's floating point mode: rounding, denormals, traps; as the processor's control register holds it.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace headnorm::host {

#if defined(__x86_64__)
inline constexpr std::uint64_t kDefaultFloatMode = 0x1f80;  // MXCSR: to nearest, denormals kept, all exceptions masked
inline std::uint64_t float_mode() { return _mm_getcsr(); }
inline void set_float_mode(std::uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
inline constexpr std::uint64_t kDefaultFloatMode = 0;  // FPCR: to nearest, denormals and NaNs kept, no traps
inline std::uint64_t float_mode() {
  std::uint64_t mode = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void set_float_mode(std::uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#else
#error "headnorm runs on x86-64 and aarch64"
#endif

// Kernels round to nearest and keep denormals, whatever mode the calling thread is in: the default while in scope.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : saved_(float_mode()) { set_float_mode(kDefaultFloatMode); }
  ~DefaultFloatMode() { set_float_mode(saved_); }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  std::uint64_t saved_;
};

}  // namespace headnorm::host
