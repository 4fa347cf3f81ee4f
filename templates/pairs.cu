// ---- two elements at a time: each is rounded as by the operation on one --------------------------------------------------------------

[[maybe_unused]] __device__ __forceinline__ float2 both(float value) { return {value, value}; }

// The elements `i` and `i + 1` of a vector.
[[maybe_unused]] __device__ __forceinline__ float2 pair(const float (&values)[kVector], int i) { return {values[i], values[i + 1]}; }
[[maybe_unused]] __device__ __forceinline__ void set_pair(float (&values)[kVector], int i, float2 pair) {
  values[i] = pair.x;
  values[i + 1] = pair.y;
}

__device__ __forceinline__ unsigned long long join(float2 pair) {
  unsigned long long joined;
  asm("mov.b64 %0, {%1, %2};" : "=l"(joined) : "f"(pair.x), "f"(pair.y));
  return joined;
}
__device__ __forceinline__ float2 split(unsigned long long joined) {
  float2 pair;
  asm("mov.b64 {%0, %1}, %2;" : "=f"(pair.x), "=f"(pair.y) : "l"(joined));
  return pair;
}

[[maybe_unused]] __device__ __forceinline__ float2 add_pair(float2 a, float2 b) {
  unsigned long long sum;
  asm("add.rn.f32x2 %0, %1, %2;" : "=l"(sum) : "l"(join(a)), "l"(join(b)));
  return split(sum);
}
[[maybe_unused]] __device__ __forceinline__ float2 mul_pair(float2 a, float2 b) {
  unsigned long long product;
  asm("mul.rn.f32x2 %0, %1, %2;" : "=l"(product) : "l"(join(a)), "l"(join(b)));
  return split(product);
}
[[maybe_unused]] __device__ __forceinline__ float2 fma_pair(float2 a, float2 b, float2 c) {
  unsigned long long sum;
  asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(sum) : "l"(join(a)), "l"(join(b)), "l"(join(c)));
  return split(sum);
}

