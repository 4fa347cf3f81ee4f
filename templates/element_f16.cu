struct f16 {
  unsigned short bits;
};

// Of two in a word, the first is in the lower half.
template <>
struct Element<f16> {
  static __device__ __forceinline__ float widen(f16 value) {
    float widened;
    asm("cvt.f32.f16 %0, %1;" : "=f"(widened) : "h"(value.bits));
    return widened;
  }
  static __device__ __forceinline__ void widen_pair(unsigned pair, float* values) {
    values[0] = widen(f16{static_cast<unsigned short>(pair)});
    values[1] = widen(f16{static_cast<unsigned short>(pair >> 16)});
  }
  static __device__ __forceinline__ f16 narrow(float value) {
    f16 narrowed;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(value));
    return narrowed;
  }
  static __device__ __forceinline__ unsigned narrow_pair(const float* values) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(values[1]), "f"(values[0]));
    return pair;
  }
  static __device__ __forceinline__ unsigned join_pair(const float* values) { return narrow_pair(values); }
};

