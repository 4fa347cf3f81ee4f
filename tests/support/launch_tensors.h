// LaunchTensors: the operands of one launch in guarded memory, laid out as a test wants.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error_bound.h"
#include "runtime/device.h"
#include "tests/support/tensor.h"

namespace headnorm::test {

// Where an output goes in place of a tensor of its own.
enum class Alias : std::uint8_t {
  none,
  y_over_x,
  residual_out_over_residual,
  residual_out_over_x,
  inplace,  // y over x and residual_out over residual
};
const char* to_text(Alias alias);
// Whether the spec has these operands, in one dtype; residual inplace is for alias inplace alone.
bool is_allowed(const KernelSpec& spec, Alias alias);

// How the tensors of a launch lie in memory, by operand.
struct Layout {
  std::array<std::int64_t, kOperandCount> strides{};  // of row operands; 0: the width
  std::array<std::int64_t, kOperandCount> offset_bytes{};
  Alias alias = Alias::none;

  std::int64_t& stride(Operand operand) { return strides[static_cast<std::size_t>(operand)]; }
  std::int64_t& offset(Operand operand) { return offset_bytes[static_cast<std::size_t>(operand)]; }
};
std::string to_text(const Layout& layout);

// The tensors of one launch. Outputs that take the place of an input share its tensor.
class LaunchTensors {
 public:
  LaunchTensors(const KernelSpec& spec, std::int64_t rows, const Layout& layout);

  Tensor& tensor(Operand operand) { return *tensors_[place(operand)]; }
  // The tensors there are: one for each operand that does not use another's.
  std::vector<Tensor*> tensors();
  const KernelSpec& spec() const { return spec_; }
  std::int64_t rows() const { return rows_; }
  void set_weights(const RowValues& values);
  void set_row(std::int64_t row, const RowValues& values);
  // Inputs of a row and all weights as they are now: to be taken before a launch in place.
  RowValues inputs(std::int64_t row);
  LaunchArguments arguments();
  void seal();
  // What the launch wrote besides outputs: "" or the operand whose guards or values changed.
  std::string damage();

 private:
  std::size_t place(Operand operand) const { return owner_[static_cast<std::size_t>(operand)]; }

  KernelSpec spec_;
  std::int64_t rows_;
  std::array<std::size_t, kOperandCount> owner_{};  // index of the tensor that an operand uses
  std::array<std::optional<Tensor>, kOperandCount> tensors_;
};

}  // namespace headnorm::test
