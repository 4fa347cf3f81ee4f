// headnorm_w4096_d256_bf16_115ee62f
//   spec           width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06
//   schedule       lanes=32,vector=8,block=128,groups=4,rows=1,residency=registers,unroll=1,grid=once,weights=after,access=16
//   target         sm_90
//   block          128 threads: 1 row of 4 groups of 1 part of 256 elements, 32 lanes a part
//   grid           ceil(rows / 1) * 4 blocks in x; at most 536870911 rows
//   shared memory  0 bytes, static
// parameters
//   x              bf16 [rows, 4096], aligned to 16 bytes
//   gamma          bf16 [4096], aligned to 16 bytes
//   y              bf16 [rows, 4096], aligned to 16 bytes
//   x_stride       i64, elements from one row to the next
//   y_stride       i64, elements from one row to the next
//   rows           i64, at least 1
// formula
//   u              x
//   inv_rms        1 / sqrt(sum(u * u) / 256 + 1e-06), over the 256 channels of each head
//   y              u * inv_rms * (gamma)
//
// With its self-test:   nvcc -arch=sm_90 headnorm_w4096_d256_bf16_115ee62f.cu -o self_test && ./self_test
// Without, to link:     nvcc -arch=sm_90 -DHEADNORM_NO_SELF_TEST -c headnorm_w4096_d256_bf16_115ee62f.cu
// Everything is f32 and rounded where it is written: __fmul_rn and its like are never contracted, whatever the compiler's options.
#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

namespace {

constexpr int kPartElements = 256;    // of a part: a head or a seed head, whichever is smaller
constexpr int kLanes = 32;            // threads that share a part
constexpr int kVector = 8;            // consecutive elements that a lane takes at a time
constexpr int kPartsPerTile = 4;      // of one row of a tile, which is what a block works on at a time
constexpr int kRowsPerTile = 1;
constexpr int kTilesPerRow = 4;
constexpr int kBlockThreads = 128;

// ---- types in memory -------------------------------------------------------------------------------------------------------------

template <typename T>
struct Element;

struct bf16 {
  unsigned short bits;
};

// bf16 is the upper half of f32. Of two in a word, the first is in the lower half.
template <>
struct Element<bf16> {
  static __device__ __forceinline__ float widen(bf16 value) { return __uint_as_float(unsigned{value.bits} << 16); }
  static __device__ __forceinline__ void widen_pair(unsigned pair, float* values) {
    values[0] = __uint_as_float(pair << 16);
    values[1] = __uint_as_float(pair & 0xffff0000u);
  }
  static __device__ __forceinline__ bf16 narrow(float value) {
    bf16 narrowed;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(value));
    return narrowed;
  }
  static __device__ __forceinline__ unsigned narrow_pair(const float* values) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(values[1]), "f"(values[0]));
    return pair;
  }
  // Of values that are bf16 already.
  static __device__ __forceinline__ unsigned join_pair(const float* values) {
    return (__float_as_uint(values[0]) >> 16) | (__float_as_uint(values[1]) & 0xffff0000u);
  }
};

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

// Where element i of a lane's vector number `chunk` lies in the part: neighbouring lanes take neighbouring vectors.
__device__ __forceinline__ int place(int lane, int chunk, int i) { return (chunk * kLanes + lane) * kVector + i; }


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
    put(reinterpret_cast<Access<kBytes>*>(part + place(lane, chunk, i)), pack<T, kBytes, kRounded>(values, i));
}

// ---- reductions, in an order that the plan alone decides ---------------------------------------------------------------------------

enum class Reduction { sum, max };

template <Reduction kReduction>
__device__ __forceinline__ float combine(float a, float b) {
  return kReduction == Reduction::sum ? __fadd_rn(a, b) : fmaxf(a, b);
}

// Over each run of kRun threads. All of them get the same bits: at each step both threads of a pair combine the same two numbers.
template <Reduction kReduction, int kRun>
__device__ __forceinline__ float warp_reduce(float value) {
#pragma unroll
  for (int distance = kRun / 2; distance > 0; distance /= 2)
    value = combine<kReduction>(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
template <int kRun>
__device__ __forceinline__ float warp_sum(float value) {
  return warp_reduce<Reduction::sum, kRun>(value);
}
template <int kRun>
__device__ __forceinline__ float warp_max(float value) {
  return warp_reduce<Reduction::max, kRun>(value);
}

// Tiles are numbered along a row first.
__device__ __forceinline__ long long first_row(unsigned tile) {
  return static_cast<long long>(tile / kTilesPerRow) * kRowsPerTile;
}


}  // namespace

extern "C" __global__ void __launch_bounds__(kBlockThreads, 1)
    headnorm_w4096_d256_bf16_115ee62f(
        const bf16* x_ptr, const bf16* __restrict__ gamma_ptr, bf16* y_ptr, long long x_stride,
        long long y_stride, long long rows) {
  const int lane = threadIdx.x % kLanes;
  const int slot = threadIdx.x / kLanes;  // of this thread's part among those of the block
  const unsigned tile = blockIdx.x;
  const long long wanted_row = first_row(tile) + slot / kPartsPerTile;
  const long long row = wanted_row < rows ? wanted_row : rows - 1;
  const int part = tile % kTilesPerRow * kPartsPerTile + slot % kPartsPerTile;
  const bool stores = wanted_row < rows;  // the last row stands in for those past it, and is stored once
  const bf16* const gamma_part = gamma_ptr + part * kPartElements;
  const bf16* const x_part = x_ptr + row * x_stride + part * kPartElements;
  bf16* const y_part = y_ptr + row * y_stride + part * kPartElements;

  // Sweep 1 of 2: sum_sq.
  float x[kVector];
  float sum_sq = 0.0f;
  load<bf16, 16>(x_part, lane, 0, x);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    sum_sq = __fmaf_rn(x[i], x[i], sum_sq);  // sum_sq += x * x
  }
  sum_sq = warp_sum<32>(sum_sq);

  const float mean_sq = __fmaf_rn(sum_sq, 0.00390625f, 1e-06f);  // mean_sq = sum_sq * 0.00390625 + 1e-06
  const float inv_rms = rsqrtf(mean_sq);  // inv_rms = 1 / sqrt(mean_sq)

  if (stores) {  // only now may threads part: no shuffle or barrier of this tile follows
    // Sweep 2 of 2: y.
    float gamma[kVector];
    load<bf16, 16>(gamma_part, lane, 0, gamma);
    float y[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float n = __fmul_rn(x[i], inv_rms);  // n = x * inv_rms
      y[i] = __fmul_rn(n, gamma[i]);  // y = n * gamma
    }
    store<bf16, 16>(y_part, lane, 0, y);
  }
}

#ifndef __CUDACC_RTC__

// Launches the kernel on rows [0, rows). Strides are in elements; pointers are the device's. Without rows it does nothing.
extern "C" cudaError_t headnorm_w4096_d256_bf16_115ee62f_launch(
    cudaStream_t stream, const void* x, const void* gamma, void* y, long long x_stride, long long y_stride,
    long long rows) {
  if (rows == 0) return cudaSuccess;
  if (rows < 0 || rows > 536870911LL) return cudaErrorInvalidValue;
  if (reinterpret_cast<unsigned long long>(x) % 16 != 0) return cudaErrorMisalignedAddress;
  if (x_stride % 8 != 0) return cudaErrorMisalignedAddress;
  if (reinterpret_cast<unsigned long long>(gamma) % 16 != 0) return cudaErrorMisalignedAddress;
  if (reinterpret_cast<unsigned long long>(y) % 16 != 0) return cudaErrorMisalignedAddress;
  if (y_stride % 8 != 0) return cudaErrorMisalignedAddress;
  constexpr int kDynamicSharedBytes = 0;
  const long long tiles = (rows + kRowsPerTile - 1) / kRowsPerTile * kTilesPerRow;
  const unsigned blocks = static_cast<unsigned>(tiles);
  headnorm_w4096_d256_bf16_115ee62f<<<blocks, kBlockThreads, kDynamicSharedBytes, stream>>>(
      static_cast<const bf16*>(x), static_cast<const bf16*>(gamma), static_cast<bf16*>(y), x_stride,
      y_stride, rows);
  return cudaGetLastError();
}

#ifndef HEADNORM_NO_SELF_TEST

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {
namespace self_test {

// ---- what is computed --------------------------------------------------------------------------------------------------------------

enum class Weight { none, channel, shared, head };
enum class Sigma { tanh, sigmoid, softsign, hardtanh };

constexpr int kWidth = 4096;
constexpr int kHeadSize = 256;
constexpr int kSeedHeads = 1;
constexpr Weight kWeight = Weight::channel;
constexpr Sigma kSigma = Sigma::tanh;
constexpr bool kHasResidual = false;
constexpr bool kHasGate = false;
constexpr bool kRoundsBeforeGain = false;
constexpr bool kNormTakesRounded = true;
constexpr double kEps = 9.999999974752427e-07;
constexpr double kWeightOffset = 0;
constexpr double kResidualScale = 1;
constexpr double kSeedScale = 1;
// Roundings that a term of a sum goes through at most.
constexpr int kHeadAdditions = 14;
constexpr int kSeedAdditions = 0;

constexpr int kHeads = kWidth / kHeadSize, kSeedSize = kWidth / kSeedHeads;

// ---- numbers of each type: rounding to nearest even ----------------------------------------------------------------------------------

struct Format {
  int bytes, bits, min_exponent;  // significant bits, exponent of the smallest normal number
};
constexpr Format kXFormat = {2, 8, -126};  // bf16
constexpr Format kResidualFormat = {4, 24, -126};  // f32
constexpr Format kWeightFormat = {2, 8, -126};  // bf16
constexpr Format kYFormat = {2, 8, -126};  // bf16
constexpr int kF16Bits = 11;

double ulp_of(double value, Format format) {
  const int exponent = value == 0 ? format.min_exponent : std::ilogb(value);
  return std::ldexp(1.0, (exponent < format.min_exponent ? format.min_exponent : exponent) - format.bits + 1);
}

double round_to(double value, Format format) {
  if (!std::isfinite(value) || value == 0) return value;
  const double ulp = ulp_of(value, format);
  return std::nearbyint(value / ulp) * ulp;
}

// `value` is one of the format's numbers, and finite.
void put(unsigned char* to, double value, Format format) {
  const float number = static_cast<float>(value);
  unsigned bits;
  std::memcpy(&bits, &number, 4);
  unsigned short half = static_cast<unsigned short>(bits >> 16);  // bf16
  if (format.bits == kF16Bits) {
    const unsigned sign = bits >> 16 & 0x8000u;
    const double size = std::fabs(value);
    const unsigned magnitude = size < 0x1p-14 ? static_cast<unsigned>(size * 0x1p24) : ((bits & 0x7fffffffu) - 0x38000000u) >> 13;
    half = static_cast<unsigned short>(sign | magnitude);
  }
  if (format.bytes == 4)
    std::memcpy(to, &bits, 4);
  else
    std::memcpy(to, &half, 2);
}

double get(const unsigned char* from, Format format) {
  unsigned bits = 0;
  std::memcpy(&bits, from, format.bytes);
  if (format.bits == kF16Bits) {
    const unsigned exponent = bits >> 10 & 31u, mantissa = bits & 1023u;
    const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
    if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024.0, static_cast<int>(exponent) - 25));
  }
  if (format.bytes == 2) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// ---- a tensor on both sides ----------------------------------------------------------------------------------------------------------

struct Tensor {
  Format format;
  std::vector<unsigned char> bytes;
  void* device = nullptr;

  Tensor(long long elements, Format of) : format(of), bytes(static_cast<std::size_t>(elements * of.bytes), 0xff) {}
  double at(long long i) const { return get(&bytes[static_cast<std::size_t>(i * format.bytes)], format); }
  void set(long long i, double value) { put(&bytes[static_cast<std::size_t>(i * format.bytes)], round_to(value, format), format); }
};

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAIL: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}

void upload(Tensor& tensor) {
  check(cudaMalloc(&tensor.device, tensor.bytes.size()), "cudaMalloc");
  check(cudaMemcpy(tensor.device, tensor.bytes.data(), tensor.bytes.size(), cudaMemcpyHostToDevice), "copy to the device");
}

void download(Tensor& tensor) {
  check(cudaMemcpy(tensor.bytes.data(), tensor.device, tensor.bytes.size(), cudaMemcpyDeviceToHost), "copy from the device");
  check(cudaFree(tensor.device), "cudaFree");
}

// ---- random data: normal numbers, and every 97th of them a hundred times larger --------------------------------------------------------

unsigned long long random_state = 20260607;

double uniform() {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<double>((random_state >> 33) + 1) * 0x1p-31;
}

double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()); }

// ---- the formula, in double ----------------------------------------------------------------------------------------------------------

double sigma(double z) {
  switch (kSigma) {
    case Sigma::tanh:
      return std::tanh(z);
    case Sigma::sigmoid:
      return 1 / (1 + std::exp(-z));
    case Sigma::softsign:
      return z / (1 + std::fabs(z));
    default:
      return z < -1 ? -1 : z > 1 ? 1 : z;
  }
}

// A value and how far f32 arithmetic may be from it.
struct Bounded {
  double value, error;
};

constexpr double kUnit = 0x1p-24;  // half an ulp of f32

struct Row {
  const Tensor &x, &residual, &gamma, &alpha, &beta;
  long long start;                // of the row in x and residual
  std::vector<Bounded> u, inv_rms, s;  // by channel, head and seed head

  void find_u() {
    for (int i = 0; i < kWidth; ++i) {
      double value = x.at(start + i), error = 0;
      if (kHasResidual) {
        const double scaled = kResidualScale * residual.at(start + i);
        value += scaled;
        error = kUnit * (std::fabs(value) + (kResidualScale == 1 ? 0 : std::fabs(scaled)));
        if (kNormTakesRounded) {
          const double exact = value;
          value = round_to(static_cast<float>(exact), kResidualFormat);
          error = round_to(exact - error, kResidualFormat) == round_to(exact + error, kResidualFormat)
                      ? 0
                      : ulp_of(exact, kResidualFormat);
        }
      }
      u.push_back({value, error});
    }
  }

  void find_inv_rms() {
    for (int head = 0; head < kHeads; ++head) {
      double sum = 0, error = 0;
      for (int i = head * kHeadSize; i < (head + 1) * kHeadSize; ++i) {
        sum += u[i].value * u[i].value;
        error += 2 * std::fabs(u[i].value) * u[i].error;
      }
      const double mean = sum / kHeadSize + kEps, value = 1 / std::sqrt(mean);
      error = (error + kHeadAdditions * kUnit * sum) / kHeadSize + 4 * kUnit * mean;
      inv_rms.push_back({value, value * (0.5 * error / mean * (1 + error / mean) + 0x1.2p-23)});
    }
  }

  void find_s() {
    for (int seed = 0; seed < kSeedHeads && kHasGate; ++seed) {
      double dot = 0, size = 0, error = 0;
      for (int i = seed * kSeedSize; i < (seed + 1) * kSeedSize; ++i) {
        dot += u[i].value * beta.at(i);
        size += std::fabs(u[i].value * beta.at(i));
        error += u[i].error * std::fabs(beta.at(i));
      }
      const double z = kSeedScale * dot;
      error = std::fabs(kSeedScale) * (error + kSeedAdditions * kUnit * size) + 2 * kUnit * std::fabs(z);
      const double low = sigma(z - error), high = sigma(z + error), value = sigma(z);
      s.push_back({value, std::fmax(high - value, value - low) + 4e-7 * std::fmax(std::fabs(low), std::fabs(high))});
    }
  }

  Bounded gain(int i) const {
    double value = kWeight == Weight::none      ? 1
                   : kWeight == Weight::channel ? gamma.at(i)
                   : kWeight == Weight::shared  ? gamma.at(i % kHeadSize)
                                                : gamma.at(i / kHeadSize);
    value += kWeightOffset;
    double error = kUnit * std::fabs(value);
    if (kHasGate) {
      const Bounded& gate = s[i / kSeedSize];
      value += gate.value * alpha.at(i);
      error += std::fabs(alpha.at(i)) * gate.error + kUnit * std::fabs(value);
    }
    return {value, error};
  }

  Bounded y(int i) const {
    const Bounded &inv = inv_rms[i / kHeadSize], g = gain(i);
    double n = u[i].value * inv.value;
    double error = u[i].error * inv.value + std::fabs(u[i].value) * inv.error + kUnit * std::fabs(n);
    if (kRoundsBeforeGain) {
      const double low = round_to(n - error, kXFormat), high = round_to(n + error, kXFormat);
      n = round_to(n, kXFormat);
      error = std::fmax(high - n, n - low);
    }
    return {n * g.value, error * (std::fabs(g.value) + g.error) + std::fabs(n) * g.error + kUnit * std::fabs(n * g.value)};
  }
};

// ---- comparing -----------------------------------------------------------------------------------------------------------------------

struct Worst {
  double error = 0, of_bound = 0;  // largest distance, and largest part of what is allowed
};

// Rounding is monotone: right is what lies between the rounded ends of the interval.
void compare(double stored, const Bounded& exact, Format format, Worst& worst) {
  const double allowed = exact.error + 0.5 * ulp_of(std::fabs(exact.value) + exact.error, format);
  const double distance = std::fabs(stored - exact.value);
  worst.error = std::fmax(worst.error, distance);
  const bool is_right = round_to(exact.value - exact.error, format) <= stored && stored <= round_to(exact.value + exact.error, format);
  worst.of_bound = std::fmax(worst.of_bound, is_right ? std::fmin(1.0, distance / allowed) : 2.0);
  if (std::isnan(stored)) worst.of_bound = INFINITY;
}

int run() {
  constexpr long long kRows = 3;
  Tensor x(kRows * kWidth, kXFormat), residual(kRows * kWidth, kResidualFormat), gamma(kWidth, kWeightFormat);
  Tensor alpha(kWidth, kWeightFormat), beta(kWidth, kWeightFormat);
  Tensor y(kRows * kWidth, kYFormat), residual_out(kRows * kWidth, kResidualFormat);
  for (long long i = 0; i < kRows * kWidth; ++i) {
    x.set(i, normal() * (i % 97 == 5 ? 100 : 1));
    residual.set(i, normal());
  }
  for (int i = 0; i < kWidth; ++i) {
    gamma.set(i, 1 - kWeightOffset + 0.2 * normal());
    alpha.set(i, normal());
    beta.set(i, normal() / std::sqrt(static_cast<double>(kSeedSize)));
  }
  for (Tensor* tensor : {&x, &residual, &gamma, &alpha, &beta, &y, &residual_out}) upload(*tensor);
  const cudaError_t launched = headnorm_w4096_d256_bf16_115ee62f_launch(
      nullptr, x.device, gamma.device, y.device, kWidth, kWidth, kRows);
  check(launched, "launch");
  check(cudaDeviceSynchronize(), "run");
  Tensor *const y_tensor = &y, *const u_tensor = &residual_out;
  const Tensor x_before = x, residual_before = residual;
  for (Tensor* tensor : {&x, &residual, &gamma, &alpha, &beta, &y, &residual_out}) download(*tensor);

  Worst worst_y, worst_u;
  for (long long row = 0; row < kRows; ++row) {
    Row exact{x_before, residual_before, gamma, alpha, beta, row * kWidth, {}, {}, {}};
    exact.find_u();
    exact.find_inv_rms();
    exact.find_s();
    for (int i = 0; i < kWidth; ++i) {
      compare(y_tensor->at(row * kWidth + i), exact.y(i), kYFormat, worst_y);
      if (!kHasResidual) continue;
      Bounded u = exact.u[i];
      if (!kNormTakesRounded) u.error += 2 * kUnit * std::fabs(u.value);
      compare(u_tensor->at(row * kWidth + i), u, kResidualFormat, worst_u);
    }
  }
  std::printf("y: max error %g, %.2f of the bound\n", worst_y.error, worst_y.of_bound);
  if (kHasResidual) std::printf("residual_out: max error %g, %.2f of the bound\n", worst_u.error, worst_u.of_bound);
  const bool passed = worst_y.of_bound <= 1 && worst_u.of_bound <= 1;
  std::printf("%s\n", passed ? "PASS" : "FAIL");
  return passed ? 0 : 1;
}

}  // namespace self_test
}  // namespace

int main() { return self_test::run(); }

#endif  // HEADNORM_NO_SELF_TEST
#endif  // __CUDACC_RTC__
