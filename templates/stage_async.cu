// Copies of this thread's own elements, which no other thread reads. Past the end of the part it copies what the part begins with.
template <typename T, int kBytes>
__device__ __forceinline__ void copy_ahead(T* room, const T* part, int lane{{policy_parameter}}) {
#pragma unroll 1
  for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
    for (int i = 0; i < kVector; i += kBytes / static_cast<int>(sizeof(T))) {
      const unsigned to = shared_address(room + staged(chunk, i));
      const T* const from = part + place(lane, chunk, i);
      if constexpr (kBytes == 16)
        asm volatile("cp.async.cg.shared.global{{hint}} [%0], [%1], %2{{hint_operand}};" ::"r"(to), "l"(from), "n"(kBytes){{hint_input}} : "memory");
      else
        asm volatile("cp.async.ca.shared.global{{hint}} [%0], [%1], %2{{hint_operand}};" ::"r"(to), "l"(from), "n"(kBytes){{hint_input}} : "memory");
    }
  }
}

// What was asked for since the last time is one tile's.
__device__ __forceinline__ void end_copy() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all tiles but the last kLater are there.
template <int kLater>
__device__ __forceinline__ void wait_for_copy() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
}

