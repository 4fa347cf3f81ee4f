struct bf16 {
  unsigned short bits;
};

// bf16 is the upper half of f32. Of two in a word, the first is in the lower half.
template <>
struct Element<bf16> {
  static __device__ __forceinline__ float widen(bf16 value) { return __uint_as_float(unsigned{value.bits} << 16); }
  static __device__ __forceinline__ void widen_pair(unsigned pair, float* values) {
    values[0] = __uint_as_float(pair << 16);
    values[1] = __uint_as_float(pair & 0xffff0000u);
  }
  static __device__ __forceinline__ bf16 narrow(float value) {
    bf16 narrowed;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(value));
    return narrowed;
  }
  static __device__ __forceinline__ unsigned narrow_pair(const float* values) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(values[1]), "f"(values[0]));
    return pair;
  }
  // Of values that are bf16 already.
  static __device__ __forceinline__ unsigned join_pair(const float* values) {
    return (__float_as_uint(values[0]) >> 16) | (__float_as_uint(values[1]) & 0xffff0000u);
  }
};

