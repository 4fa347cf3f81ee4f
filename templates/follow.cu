// Waits until the kernel before this one has ended and what it wrote is seen, then lets the one after it begin.
__device__ __forceinline__ void follow_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

