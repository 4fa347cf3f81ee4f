// The copy engine brings parts; what it has brought it tells the barrier of the stage.
__shared__ __align__(8) unsigned long long arrived[kStages];

// Before the first copy, by all threads.
__device__ __forceinline__ void open_stages() {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&arrived[stage])), "r"(kBlockThreads / kLanes)
                   : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
}

template <typename T>
constexpr int kChunkBytes = kLanes * kVector * static_cast<int>(sizeof(T));  // of this block

// Of this block's share of the part's last chunk, where that is not whole.
template <typename T>
__device__ __forceinline__ int tail_bytes(int rank) {
  const int left = kPartElements % (kPartLanes * kVector) * static_cast<int>(sizeof(T)) - rank * kChunkBytes<T>;
  return min(max(left, 0), kChunkBytes<T>);
}
template <typename T>
__device__ __forceinline__ int share_bytes(int rank) {
  return kFullChunks * kChunkBytes<T> + tail_bytes<T>(rank);
}

// The first lane of each part says how much is to come, then asks for it.
__device__ __forceinline__ void expect(int stage, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&arrived[stage])), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_bulk(void* to, const void* from, int bytes, int stage{{policy_parameter}}) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{{hint}} [%0], [%1], %2, [%3]{{hint_operand}};" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(&arrived[stage])){{hint_input}}
               : "memory");
}
template <typename T>
__device__ __forceinline__ void copy_ahead(T* room, const T* part, int rank, int stage{{policy_parameter}}) {
  if constexpr (kCluster == 1) {
    copy_bulk(room, part, share_bytes<T>(rank), stage{{policy_argument}});
  } else {
    // A block's share is one stretch of each chunk.
#pragma unroll 1
    for (int chunk = 0; chunk < kFullChunks; ++chunk)
      copy_bulk(room + chunk * kLanes * kVector, part + (chunk * kCluster + rank) * kLanes * kVector, kChunkBytes<T>, stage{{policy_argument}});
    if (tail_bytes<T>(rank) > 0)
      copy_bulk(room + kFullChunks * kLanes * kVector, part + (kFullChunks * kCluster + rank) * kLanes * kVector,
                tail_bytes<T>(rank), stage{{policy_argument}});
  }
}

// `phase`: 0 for the first tile of a stage, then 1, 0 and so on.
__device__ __forceinline__ void wait_for_copy(int stage, int phase) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n\t.reg .pred done;\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n\tselp.b32 %0, 1, 0, done;\n\t}"
        : "=r"(done)
        : "r"(shared_address(&arrived[stage])), "r"(phase)
        : "memory");
  }
}

