// ---- values that wait in shared memory between the sweeps: each thread reads back its own --------------------------------------------

extern __shared__ __align__(16) unsigned char kept_memory[];

template <typename T>
struct Kept {
  static constexpr int kBytes = kVector * sizeof(T) < 16 ? kVector * sizeof(T) : 16;  // of a unit, which one access moves
  // Units of neighbouring threads lie side by side, so that no two threads of a warp meet in a bank.
  static __device__ __forceinline__ Access<kBytes>* unit(int begin, int chunk, int number) {
    return reinterpret_cast<Access<kBytes>*>(kept_memory + begin + chunk * (kVector * static_cast<int>(sizeof(T)) * kBlockThreads)) +
           number * kBlockThreads + threadIdx.x;
  }
};

// `begin`: bytes from the start of the memory to this value's.
template <typename T>
__device__ __forceinline__ void keep(int begin, int chunk, const float (&values)[kVector]) {
  constexpr int kBytes = Kept<T>::kBytes, kElements = kBytes / sizeof(T);
#pragma unroll
  for (int i = 0; i < kVector; i += kElements)
    *Kept<T>::unit(begin, chunk, i / kElements) = pack<T, kBytes, Rounded::yes>(values, i);
}

template <typename T>
__device__ __forceinline__ void recall(int begin, int chunk, float (&values)[kVector]) {
  constexpr int kBytes = Kept<T>::kBytes, kElements = kBytes / sizeof(T);
  Fetched<T, kBytes> fetched;
#pragma unroll
  for (int i = 0; i < kVector; i += kElements) fetched[i / kElements] = *Kept<T>::unit(begin, chunk, i / kElements);
  unpack<T, kBytes>(fetched, values);
}

