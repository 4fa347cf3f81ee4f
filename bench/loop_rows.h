// The loop of loop_baseline.h, once for all compilers and element types.
#pragma once

#include <cmath>
#include <cstdint>

namespace headnorm::bench {

// Format: Element, the type in memory; read(Element), the f32; write(float), the Element.
template <class Format, class Element = typename Format::Element>
void loop_rows(const Element* __restrict x, const Element* __restrict gamma, Element* __restrict y, std::int64_t rows,
               std::int64_t width, std::int64_t head_size, float eps) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < width; head += head_size) {
      const Element* __restrict in = x + row * width + head;
      Element* __restrict out = y + row * width + head;
      float sum = 0;
      for (std::int64_t i = 0; i < head_size; ++i) sum += Format::read(in[i]) * Format::read(in[i]);
      const float inv_rms = 1.0f / std::sqrt(sum / static_cast<float>(head_size) + eps);
      for (std::int64_t i = 0; i < head_size; ++i)
        out[i] = Format::write(Format::read(in[i]) * inv_rms * Format::read(gamma[head + i]));
    }
  }
}

// An element type that the compiler itself converts.
template <class T>
struct Native {
  using Element = T;
  static float read(T value) { return static_cast<float>(value); }
  static T write(float value) { return static_cast<T>(value); }
};

}  // namespace headnorm::bench
