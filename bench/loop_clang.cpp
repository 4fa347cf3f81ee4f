// The loop of loop_baseline.h with the compiler's own bf16 type: the maths as it is written, all conversions left to the compiler.
// Compiled by Clang 17 or later, which has the type.
#include <cmath>

#include "bench/loop_baseline.h"

namespace headnorm::bench {
namespace {

template <class T>
void run(const T* __restrict x, const T* __restrict gamma, T* __restrict y, std::int64_t rows, std::int64_t width,
         std::int64_t head_size, float eps) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < width; head += head_size) {
      const T* __restrict in = x + row * width + head;
      T* __restrict out = y + row * width + head;
      float sum = 0;
      for (std::int64_t i = 0; i < head_size; ++i) sum += static_cast<float>(in[i]) * static_cast<float>(in[i]);
      const float inv_rms = 1.0f / std::sqrt(sum / static_cast<float>(head_size) + eps);
      for (std::int64_t i = 0; i < head_size; ++i)
        out[i] = static_cast<T>(static_cast<float>(in[i]) * inv_rms * static_cast<float>(gamma[head + i]));
    }
  }
}

template <class T>
void run_as(const void* x, const void* gamma, void* y, std::int64_t rows, std::int64_t width, std::int64_t head_size, float eps) {
  run(static_cast<const T*>(x), static_cast<const T*>(gamma), static_cast<T*>(y), rows, width, head_size, eps);
}

}  // namespace

bool loop_mh_rmsnorm_clang(const void* x, const void* gamma, void* y, std::int64_t rows, std::int64_t width, std::int64_t head_size,
                           float eps, bool bf16) {
  bf16 ? run_as<__bf16>(x, gamma, y, rows, width, head_size, eps) : run_as<float>(x, gamma, y, rows, width, head_size, eps);
  return true;
}

}  // namespace headnorm::bench
