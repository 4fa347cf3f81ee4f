// `value` limited to [low, high]; NaN stays NaN.
__device__ __forceinline__ float clamp(float value, float low, float high) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(value) : "f"(low));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(value) : "f"(high));
  return value;
}

