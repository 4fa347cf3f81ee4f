template <>
struct Element<float> {
  static __device__ __forceinline__ float widen(float value) { return value; }
};

