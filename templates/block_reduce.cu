// Over kPartials runs, which have left their values in shared memory: every thread takes them in order.
template <Reduction kReduction, int kPartials>
__device__ __forceinline__ float block_reduce(const float* partials) {
  float value = partials[0];
#pragma unroll kPartials <= 32 ? kPartials : 1
  for (int i = 1; i < kPartials; ++i) value = combine<kReduction>(value, partials[i]);
  return value;
}
template <int kPartials>
__device__ __forceinline__ float block_sum(const float* partials) {
  return block_reduce<Reduction::sum, kPartials>(partials);
}
template <int kPartials>
__device__ __forceinline__ float block_max(const float* partials) {
  return block_reduce<Reduction::max, kPartials>(partials);
}

