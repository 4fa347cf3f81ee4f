// Tensor: a row operand or a weight in guarded memory, with any row stride and any misalignment.
//
// 64 bytes before the first and after the last element, and the gaps between rows, hold a canary. seal() remembers everything, so
// that a test can ask afterwards what a kernel has written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace headnorm::test {

class Tensor {
 public:
  // `stride` >= `elements`, in elements. The first element stands `offset_bytes` past a multiple of 64.
  Tensor(Dtype dtype, std::int64_t rows, std::int64_t elements, std::int64_t stride, std::int64_t offset_bytes);

  Tensor(Tensor&&) = default;
  Tensor& operator=(Tensor&&) = default;

  void* address() { return memory_.data() + first_; }
  std::int64_t stride() const { return stride_; }
  std::int64_t rows() const { return rows_; }
  Dtype dtype() const { return dtype_; }

  double at(std::int64_t row, std::int64_t element) const;
  void set(std::int64_t row, std::int64_t element, double value);
  std::vector<double> row(std::int64_t row) const;
  void set_row(std::int64_t row, const std::vector<double>& values);
  // The bytes of a row's elements, for bit-equality.
  std::vector<std::byte> row_bytes(std::int64_t row) const;

  // All rows with their gaps and the guards around them: the same number of bytes in every tensor of this shape.
  std::span<std::byte> image();

  void seal() { sealed_ = memory_; }
  bool is_unchanged() const { return memory_ == sealed_; }
  // Whether nothing but elements has changed since seal().
  bool are_guards_intact() const;

 private:
  std::size_t place(std::int64_t row, std::int64_t element) const;

  Dtype dtype_;
  std::int64_t rows_, elements_, stride_;
  std::size_t used_bytes_ = 0;
  std::size_t first_ = 0;                   // place of the first element in memory_
  std::vector<std::byte> memory_, sealed_;  // never grow: the first element keeps its address
};

}  // namespace headnorm::test
