// Block and warp reductions and scans of CCCL, one kernel each: what they compute is theirs, not ours.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

template <class T, int Threads, cub::BlockReduceAlgorithm Algorithm>
__device__ void reduce(const T* in, T* out) {
  using Reduce = cub::BlockReduce<T, Threads, Algorithm>;
  __shared__ typename Reduce::TempStorage storage;
  const T sum = Reduce(storage).Sum(in[blockIdx.x * Threads + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <class T, int Threads, cub::BlockScanAlgorithm Algorithm>
__device__ void scan(const T* in, T* out) {
  using Scan = cub::BlockScan<T, Threads, Algorithm>;
  __shared__ typename Scan::TempStorage storage;
  T result;
  Scan(storage).InclusiveSum(in[blockIdx.x * Threads + threadIdx.x], result);
  out[blockIdx.x * Threads + threadIdx.x] = result;
}

#define REDUCE(name, T, threads, algorithm) \
  extern "C" __global__ void name(const T* in, T* out) { reduce<T, threads, cub::algorithm>(in, out); }
#define SCAN(name, T, threads, algorithm) \
  extern "C" __global__ void name(const T* in, T* out) { scan<T, threads, cub::algorithm>(in, out); }

REDUCE(reduce_f32_128, float, 128, BLOCK_REDUCE_WARP_REDUCTIONS)
REDUCE(reduce_i32_96, int, 96, BLOCK_REDUCE_RAKING)
REDUCE(reduce_i64_256, long long, 256, BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY)
REDUCE(reduce_f64_64, double, 64, BLOCK_REDUCE_WARP_REDUCTIONS)
SCAN(scan_i32_128, int, 128, BLOCK_SCAN_WARP_SCANS)
SCAN(scan_f32_128, float, 128, BLOCK_SCAN_RAKING)
SCAN(scan_i64_256, long long, 256, BLOCK_SCAN_RAKING_MEMOIZE)

extern "C" __global__ void warp_reduce_i32_32(const int* in, int* out) {
  using Reduce = cub::WarpReduce<int>;
  __shared__ Reduce::TempStorage storage;
  const int sum = Reduce(storage).Sum(in[blockIdx.x * 32 + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void warp_scan_f32_16(const float* in, float* out) {
  using Scan = cub::WarpScan<float, 16>;
  __shared__ Scan::TempStorage storage[1];
  float result;
  Scan(storage[0]).InclusiveSum(in[blockIdx.x * 16 + threadIdx.x], result);
  out[blockIdx.x * 16 + threadIdx.x] = result;
}
