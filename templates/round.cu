// Rounds to T and back.
template <typename T>
__device__ __forceinline__ void round_to(float (&values)[kVector]) {
  if constexpr (kVector == 1) {
    values[0] = Element<T>::widen(Element<T>::narrow(values[0]));
  } else {
#pragma unroll
    for (int i = 0; i < kVector; i += 2) Element<T>::widen_pair(Element<T>::narrow_pair(&values[i]), &values[i]);
  }
}

