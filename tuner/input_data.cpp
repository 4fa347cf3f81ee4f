#include "tuner/input_data.h"

#include <algorithm>
#include <cmath>

#include "tuner/random.h"

namespace headnorm {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 20;  // of a row operand: bounds the time that the reference takes
constexpr std::int64_t kOutlierSpacing = 256;

std::int64_t rows_for(std::int64_t width) {
  for (std::int64_t prime : {31, 17, 11, 7, 5}) {
    if (prime * width <= kMostElements) return prime;
  }
  return 3;
}

std::vector<double> channel_scales(const KernelSpec& spec, Random& random) {
  std::vector<double> scales(static_cast<std::size_t>(spec.width), 1.0);
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, spec.width / kOutlierSpacing); ++i)
    scales[random.below(scales.size())] = 100;
  return scales;
}

double row_scale(const KernelSpec& spec, Dtype dtype, std::int64_t row) {
  const bool extreme = spec.mode == Mode::safe_range && dtype != Dtype::f16;
  if (row % 5 == 4) return extreme ? 0x1p-100 : 0x1p-12;
  return row % 5 == 3 && extreme ? 0x1p100 : 1;
}

double weight_value(const KernelSpec& spec, Operand operand, Random& random) {
  switch (operand) {
    case Operand::gamma:
      return 1 - spec.weight_offset + 0.1 * random.normal();
    case Operand::alpha:
      return 0.5 * random.normal();
    default:  // beta: seeds of about 1, where sigma is curved
      return 0.3 * random.normal() / std::sqrt(static_cast<double>(spec.width / spec.seed_heads)) / std::max(spec.seed_scale, 1e-3);
  }
}

}  // namespace

InputData::InputData(const KernelSpec& spec, std::uint64_t seed) : spec_(spec), row_count_(rows_for(spec.width)) {
  for (Operand operand : kOperands) {
    if (has_operand(spec, operand) && !is_output(operand)) fill(operand, seed);
  }
}

void InputData::fill(Operand operand, std::uint64_t seed) {
  Random channels(seed), random(seed * kOperandCount + static_cast<std::uint64_t>(operand) + 1);
  const std::vector<double> scales = channel_scales(spec_, channels);
  const Dtype dtype = operand_dtype(spec_, operand);
  const std::int64_t elements = operand_elements(spec_, operand), rows = is_row_operand(operand) ? row_count_ : 1;
  std::vector<std::byte>& bytes = bytes_[static_cast<std::size_t>(operand)];
  bytes.resize(static_cast<std::size_t>(rows * elements * size_bytes(dtype)));
  for (std::int64_t r = 0; r < rows; ++r) {
    const double scale = row_scale(spec_, dtype, r);
    for (std::int64_t i = 0; i < elements; ++i) {
      const double value = is_row_operand(operand) ? random.normal() * scale * scales[static_cast<std::size_t>(i)]
                                                   : weight_value(spec_, operand, random);
      store_element(bytes.data() + (r * elements + i) * size_bytes(dtype), dtype, static_cast<float>(value));
    }
  }
}

RowValues InputData::row(std::int64_t row) const {
  RowValues values;
  for (Operand operand : kOperands) {
    const std::vector<std::byte>& all = bytes(operand);
    if (all.empty()) continue;
    const Dtype dtype = operand_dtype(spec_, operand);
    const std::int64_t elements = operand_elements(spec_, operand);
    const std::byte* source = all.data() + (is_row_operand(operand) ? row * elements * size_bytes(dtype) : 0);
    std::vector<double>& out = values[static_cast<std::size_t>(operand)];
    for (std::int64_t i = 0; i < elements; ++i) out.push_back(load_element(source + i * size_bytes(dtype), dtype));
  }
  return values;
}

}  // namespace headnorm
