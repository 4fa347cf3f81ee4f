#include "tests/support/tensor.h"

#include <algorithm>

namespace headnorm::test {
namespace {

constexpr std::size_t kGuardBytes = 64, kAlignment = 64;
constexpr std::byte kCanary{0xa5};

}  // namespace

Tensor::Tensor(Dtype dtype, std::int64_t rows, std::int64_t elements, std::int64_t stride, std::int64_t offset_bytes)
    : dtype_(dtype), rows_(rows), elements_(elements), stride_(stride) {
  used_bytes_ = static_cast<std::size_t>(rows == 0 ? 0 : ((rows - 1) * stride + elements) * size_bytes(dtype));
  memory_.assign(used_bytes_ + static_cast<std::size_t>(offset_bytes) + 2 * kGuardBytes + kAlignment, kCanary);
  const auto base = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuardBytes;
  const std::size_t aligned = (base + kAlignment - 1) / kAlignment * kAlignment;
  first_ = kGuardBytes + (aligned - base) + static_cast<std::size_t>(offset_bytes);
}

std::size_t Tensor::place(std::int64_t row, std::int64_t element) const {
  return first_ + static_cast<std::size_t>((row * stride_ + element) * size_bytes(dtype_));
}

double Tensor::at(std::int64_t row, std::int64_t element) const {
  return load_element(memory_.data() + place(row, element), dtype_);
}

void Tensor::set(std::int64_t row, std::int64_t element, double value) {
  store_element(memory_.data() + place(row, element), dtype_, static_cast<float>(value));
}

std::vector<double> Tensor::row(std::int64_t row) const {
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements_; ++i) values.push_back(at(row, i));
  return values;
}

void Tensor::set_row(std::int64_t row, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) set(row, static_cast<std::int64_t>(i), values[i]);
}

std::vector<std::byte> Tensor::row_bytes(std::int64_t row) const {
  const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(place(row, 0));
  return {begin, begin + elements_ * size_bytes(dtype_)};
}

std::span<std::byte> Tensor::image() { return std::span(memory_).subspan(first_ - kGuardBytes, used_bytes_ + 2 * kGuardBytes); }

bool Tensor::are_guards_intact() const {
  const auto same = [&](std::size_t begin, std::size_t end) {
    return std::equal(memory_.begin() + static_cast<std::ptrdiff_t>(begin), memory_.begin() + static_cast<std::ptrdiff_t>(end),
                      sealed_.begin() + static_cast<std::ptrdiff_t>(begin));
  };
  std::size_t guard = 0;  // begin of the guard before a row
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (!same(guard, place(row, 0))) return false;
    guard = place(row, elements_);
  }
  return same(guard, memory_.size());
}

}  // namespace headnorm::test
