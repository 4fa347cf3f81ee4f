// Input data: random activations and weights for a spec, as the bytes that a kernel reads and as the doubles that a reference
// reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/error_bound.h"
#include "core/kernel_spec.h"

namespace headnorm {

// Row r of a launch is row r % row_count(): a launch of any size needs few reference rows. Their number is odd and prime, so that a
// kernel that writes a row to the place of another (off by a power of two) is seen.
class InputData {
 public:
  // As wide transformers have them: normal numbers, one channel in 256 (at least one) a hundred times larger, and every fifth row
  // tiny; in mode safe-range every fifth row is huge as well, and squares of the tiny ones vanish. The seed decides everything.
  InputData(const KernelSpec& spec, std::uint64_t seed);

  std::int64_t row_count() const { return row_count_; }
  // All rows of a row input, one after the other, or a whole weight. Empty for outputs and for operands that the spec does not
  // have.
  const std::vector<std::byte>& bytes(Operand operand) const { return bytes_[static_cast<std::size_t>(operand)]; }
  RowValues row(std::int64_t row) const;

 private:
  void fill(Operand operand, std::uint64_t seed);

  KernelSpec spec_;
  std::int64_t row_count_ = 0;
  std::array<std::vector<std::byte>, kOperandCount> bytes_;
};

}  // namespace headnorm
