// ---- a lane's vectors: kVector consecutive elements ------------------------------------------------------------------------------

// What one access moves, aligned to its size.
template <int kBytes>
struct alignas(kBytes) Access {
  unsigned word[kBytes / 4];
};
template <>
struct alignas(2) Access<2> {
  unsigned short half;
};

// A vector as it stands in memory.
template <typename T, int kBytes>
using Fetched = Access<kBytes>[kVector * sizeof(T) / kBytes];

{{place}}
template <typename T, int kBytes>
__device__ __forceinline__ void fetch(const T* part, int lane, int chunk, Fetched<T, kBytes>& fetched) {
  constexpr int kElements = kBytes / sizeof(T);
#pragma unroll
  for (int i = 0; i < kVector; i += kElements)
    fetched[i / kElements] = *reinterpret_cast<const Access<kBytes>*>(part + place(lane, chunk, i));
}

template <typename T, int kBytes>
__device__ __forceinline__ void unpack(const Fetched<T, kBytes>& fetched, float (&values)[kVector]) {
  constexpr int kElements = kBytes / sizeof(T);
#pragma unroll
  for (int i = 0; i < kVector; i += kElements) {
    const Access<kBytes>& access = fetched[i / kElements];
    if constexpr (kBytes == 2) {
      values[i] = Element<T>::widen(T{access.half});
    } else {
#pragma unroll
      for (int word = 0; word < kBytes / 4; ++word) {
        if constexpr (sizeof(T) == 4)
          values[i + word] = __uint_as_float(access.word[word]);
        else
          Element<T>::widen_pair(access.word[word], &values[i + 2 * word]);
      }
    }
  }
}

template <typename T, int kBytes>
__device__ __forceinline__ void load(const T* part, int lane, int chunk, float (&values)[kVector]) {
  Fetched<T, kBytes> fetched;
  fetch<T, kBytes>(part, lane, chunk, fetched);
  unpack<T, kBytes>(fetched, values);
}

enum class Rounded { no, yes };  // whether the values are of type T already

// The elements from `i` on that one access moves.
template <typename T, int kBytes, Rounded kRounded>
__device__ __forceinline__ Access<kBytes> pack(const float (&values)[kVector], int i) {
  Access<kBytes> access;
  if constexpr (kBytes == 2) {
    access.half = Element<T>::narrow(values[i]).bits;
  } else {
#pragma unroll
    for (int word = 0; word < kBytes / 4; ++word) {
      if constexpr (sizeof(T) == 4)
        access.word[word] = __float_as_uint(values[i + word]);
      else if constexpr (kRounded == Rounded::yes)
        access.word[word] = Element<T>::join_pair(&values[i + 2 * word]);
      else
        access.word[word] = Element<T>::narrow_pair(&values[i + 2 * word]);
    }
  }
  return access;
}

// In PTX, because the compiler takes wide stores within loops apart. The kernel reads nothing that it has stored, so that loads may
// pass them.
template <int kBytes>
__device__ __forceinline__ void put(Access<kBytes>* to, const Access<kBytes>& access) {
  if constexpr (kBytes < 8) {
    *to = access;
  } else {
    const unsigned(&w)[kBytes / 4] = access.word;
    if constexpr (kBytes == 8)
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(w[0]), "r"(w[1]));
    else if constexpr (kBytes == 16)
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]));
    else
      asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]),
                   "r"(w[3]), "r"(w[4]), "r"(w[5]), "r"(w[6]), "r"(w[7]));
  }
}

template <typename T, int kBytes, Rounded kRounded = Rounded::no>
__device__ __forceinline__ void store(T* part, int lane, int chunk, const float (&values)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; i += kBytes / static_cast<int>(sizeof(T)))
    {{store_condition}}put(reinterpret_cast<Access<kBytes>*>(part + place(lane, chunk, i)), pack<T, kBytes, kRounded>(values, i));
}

