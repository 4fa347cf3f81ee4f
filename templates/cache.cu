// ---- what L2 is told: lines of rows are the first to leave, those of weights the last -----------------------------------------------

__device__ __forceinline__ unsigned long long evict_first() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ unsigned long long evict_last() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

template <int kBytes>
__device__ __forceinline__ void put(Access<kBytes>* to, const Access<kBytes>& access, unsigned long long policy) {
  if constexpr (kBytes == 2) {
    asm volatile("st.global.L2::cache_hint.b16 [%0], %1, %2;" ::"l"(to), "h"(access.half), "l"(policy));
  } else {
    const unsigned(&w)[kBytes / 4] = access.word;
    if constexpr (kBytes == 4)
      asm volatile("st.global.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(to), "r"(w[0]), "l"(policy));
    else if constexpr (kBytes == 8)
      asm volatile("st.global.L2::cache_hint.v2.b32 [%0], {%1, %2}, %3;" ::"l"(to), "r"(w[0]), "r"(w[1]), "l"(policy));
    else if constexpr (kBytes == 16)
      asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]),
                   "r"(w[3]), "l"(policy));
    else
      asm volatile("st.global.L2::cache_hint.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;" ::"l"(to), "r"(w[0]), "r"(w[1]),
                   "r"(w[2]), "r"(w[3]), "r"(w[4]), "r"(w[5]), "r"(w[6]), "r"(w[7]), "l"(policy));
  }
}

template <typename T, int kBytes, Rounded kRounded = Rounded::no>
__device__ __forceinline__ void store(T* part, int lane, int chunk, const float (&values)[kVector], unsigned long long policy) {
#pragma unroll
  for (int i = 0; i < kVector; i += kBytes / static_cast<int>(sizeof(T)))
    {{store_condition}}put(reinterpret_cast<Access<kBytes>*>(part + place(lane, chunk, i)), pack<T, kBytes, kRounded>(values, i), policy);
}

