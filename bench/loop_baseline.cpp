#include "bench/loop_baseline.h"

#include <cstring>

#include "bench/loop_rows.h"

namespace headnorm::bench {
namespace {

// bf16 as integers, shifted and rounded to nearest even by hand.
struct Bf16Bits {
  using Element = std::uint16_t;
  static float read(std::uint16_t bits) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  static std::uint16_t write(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};

}  // namespace

void loop_mh_rmsnorm(const float* x, const float* gamma, float* y, std::int64_t rows, std::int64_t width, std::int64_t head_size,
                     float eps) {
  loop_rows<Native<float>>(x, gamma, y, rows, width, head_size, eps);
}
void loop_mh_rmsnorm(const std::uint16_t* x, const std::uint16_t* gamma, std::uint16_t* y, std::int64_t rows, std::int64_t width,
                     std::int64_t head_size, float eps) {
  loop_rows<Bf16Bits>(x, gamma, y, rows, width, head_size, eps);
}

}  // namespace headnorm::bench
