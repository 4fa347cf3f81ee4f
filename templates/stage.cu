// ---- x and residual on their way through shared memory -------------------------------------------------------------------------------

extern __shared__ __align__(16) unsigned char stages[];

// The room of this thread's part in a stage; `offset`: bytes from the stage's start to the operand's.
template <typename T>
__device__ __forceinline__ T* room_of(int stage, int offset) {
  return reinterpret_cast<T*>(stages + stage * kStageBytes + offset) + threadIdx.x / kLanes * (kChunks * kLanes * kVector);
}

// Where element i of the lane's vector number `chunk` lies in its room.
__device__ __forceinline__ int staged(int chunk, int i) { return (chunk * kLanes + static_cast<int>(threadIdx.x) % kLanes) * kVector + i; }

template <typename T, int kBytes>
__device__ __forceinline__ void load_staged(const T* room, int lane, int chunk, float (&values)[kVector]) {
  constexpr int kElements = kBytes / sizeof(T);
  Fetched<T, kBytes> fetched;
#pragma unroll
  for (int i = 0; i < kVector; i += kElements)
    fetched[i / kElements] = *reinterpret_cast<const Access<kBytes>*>(room + {{place}});
  unpack<T, kBytes>(fetched, values);
}

__device__ __forceinline__ unsigned shared_address(const void* place) {
  return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

