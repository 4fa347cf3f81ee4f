// ---- reductions, in an order that the plan alone decides ---------------------------------------------------------------------------

enum class Reduction { sum, max };

template <Reduction kReduction>
__device__ __forceinline__ float combine(float a, float b) {
  return kReduction == Reduction::sum ? __fadd_rn(a, b) : fmaxf(a, b);
}

// Over each run of kRun threads. All of them get the same bits: at each step both threads of a pair combine the same two numbers.
template <Reduction kReduction, int kRun>
__device__ __forceinline__ float warp_reduce(float value) {
#pragma unroll
  for (int distance = kRun / 2; distance > 0; distance /= 2)
    value = combine<kReduction>(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
template <int kRun>
__device__ __forceinline__ float warp_sum(float value) {
  return warp_reduce<Reduction::sum, kRun>(value);
}
template <int kRun>
__device__ __forceinline__ float warp_max(float value) {
  return warp_reduce<Reduction::max, kRun>(value);
}

