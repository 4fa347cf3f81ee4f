// Whether element i of a lane's vector number `chunk` lies within the part: kGranule elements do together, or none of them.
__device__ __forceinline__ bool inside(int lane, int chunk, int i) {
  return chunk < kFullChunks || (chunk * {{lanes}} + lane) * kVector + i / kGranule * kGranule < kPartElements;
}

// Where it lies: neighbouring lanes take neighbouring vectors. What is past the end is read from the part's start, and not used.
__device__ __forceinline__ int place(int lane, int chunk, int i) {
  return inside(lane, chunk, i) ? (chunk * {{lanes}} + lane) * kVector + i : i % kGranule;
}

