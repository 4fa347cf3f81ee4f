// Past the last tile it stays there.
__device__ __forceinline__ unsigned later_tile(unsigned tile, unsigned stride) {
  return tile + stride < tile ? 0xffffffffu : tile + stride;
}

