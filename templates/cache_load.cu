// Loads of {{what}}.
template <int kBytes>
__device__ __forceinline__ Access<kBytes> get_{{name}}(const void* from, unsigned long long policy) {
  Access<kBytes> access;
  if constexpr (kBytes == 2) {
    {{asm}}("{{instruction}}.b16 %0, [%1], %2;" : "=h"(access.half) : "l"(from), "l"(policy));
  } else {
    unsigned(&w)[kBytes / 4] = access.word;
    if constexpr (kBytes == 4)
      {{asm}}("{{instruction}}.b32 %0, [%1], %2;" : "=r"(w[0]) : "l"(from), "l"(policy));
    else if constexpr (kBytes == 8)
      {{asm}}("{{instruction}}.v2.b32 {%0, %1}, [%2], %3;" : "=r"(w[0]), "=r"(w[1]) : "l"(from), "l"(policy));
    else if constexpr (kBytes == 16)
      {{asm}}("{{instruction}}.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
          : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
          : "l"(from), "l"(policy));
    else
      {{asm}}("{{instruction}}.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
          : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]), "=r"(w[4]), "=r"(w[5]), "=r"(w[6]), "=r"(w[7])
          : "l"(from), "l"(policy));
  }
  return access;
}

template <typename T, int kBytes>
__device__ __forceinline__ void fetch_{{name}}(const T* part, int lane, int chunk, Fetched<T, kBytes>& fetched,
                                               unsigned long long policy) {
  constexpr int kElements = kBytes / sizeof(T);
#pragma unroll
  for (int i = 0; i < kVector; i += kElements) fetched[i / kElements] = get_{{name}}<kBytes>(part + place(lane, chunk, i), policy);
}

template <typename T, int kBytes>
__device__ __forceinline__ void load_{{name}}(const T* part, int lane, int chunk, float (&values)[kVector],
                                              unsigned long long policy) {
  Fetched<T, kBytes> fetched;
  fetch_{{name}}<T, kBytes>(part, lane, chunk, fetched, policy);
  unpack<T, kBytes>(fetched, values);
}

