// The power of two that brings value >= 0 into [1, 2), from the bits of its exponent, limited to [2^-126, 2^126].
__device__ __forceinline__ float inverse_power(float value) {
  const unsigned exponent = __float_as_uint(value) >> 23 & 0xffu;
  return __uint_as_float((254u - min(max(exponent, 1u), 253u)) << 23);
}

