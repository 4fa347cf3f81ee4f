#include "bench/loop_baseline.h"

#include <cmath>
#include <cstring>

namespace headnorm::bench {
namespace {

inline float to_float(float value) { return value; }
inline float to_float(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

inline void put(float& place, float value) { place = value; }
inline void put(std::uint16_t& place, float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  place = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <class T>
void run(const T* __restrict x, const T* __restrict gamma, T* __restrict y, std::int64_t rows, std::int64_t width,
         std::int64_t head_size, float eps) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < width; head += head_size) {
      const T* __restrict in = x + row * width + head;
      T* __restrict out = y + row * width + head;
      float sum = 0;
      for (std::int64_t i = 0; i < head_size; ++i) sum += to_float(in[i]) * to_float(in[i]);
      const float inv_rms = 1.0f / std::sqrt(sum / static_cast<float>(head_size) + eps);
      for (std::int64_t i = 0; i < head_size; ++i) put(out[i], to_float(in[i]) * inv_rms * to_float(gamma[head + i]));
    }
  }
}

}  // namespace

void loop_mh_rmsnorm(const float* x, const float* gamma, float* y, std::int64_t rows, std::int64_t width, std::int64_t head_size,
                     float eps) {
  run(x, gamma, y, rows, width, head_size, eps);
}
void loop_mh_rmsnorm(const std::uint16_t* x, const std::uint16_t* gamma, std::uint16_t* y, std::int64_t rows, std::int64_t width,
                     std::int64_t head_size, float eps) {
  run(x, gamma, y, rows, width, head_size, eps);
}

}  // namespace headnorm::bench
