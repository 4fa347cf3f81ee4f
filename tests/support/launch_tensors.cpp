#include "tests/support/launch_tensors.h"

#include <fmt/format.h>

#include <set>

namespace headnorm::test {
namespace {

std::size_t index_of(Operand operand) { return static_cast<std::size_t>(operand); }

// The operand whose memory `operand` uses.
Operand owner_of(Alias alias, Operand operand) {
  if (operand == Operand::y && (alias == Alias::y_over_x || alias == Alias::inplace)) return Operand::x;
  if (operand == Operand::residual_out) {
    if (alias == Alias::residual_out_over_residual || alias == Alias::inplace) return Operand::residual;
    if (alias == Alias::residual_out_over_x) return Operand::x;
  }
  return operand;
}

}  // namespace

const char* to_text(Alias alias) {
  constexpr const char* kNames[] = {"none", "y_over_x", "residual_out_over_residual", "residual_out_over_x", "inplace"};
  return kNames[static_cast<int>(alias)];
}

bool is_allowed(const KernelSpec& spec, Alias alias) {
  if (spec.residual == Residual::inplace) return alias == Alias::inplace;
  switch (alias) {
    case Alias::none:
      return true;
    case Alias::y_over_x:
      return spec.y_dtype == spec.x_dtype;
    case Alias::residual_out_over_residual:
      return spec.has_residual();
    case Alias::residual_out_over_x:
      return spec.has_residual() && spec.residual_dtype == spec.x_dtype;
    case Alias::inplace:
      return spec.has_residual() && spec.y_dtype == spec.x_dtype;
  }
  return false;
}

std::string to_text(const Layout& layout) {
  return fmt::format("strides {} offsets {} alias {}", fmt::join(layout.strides, ","), fmt::join(layout.offset_bytes, ","),
                     to_text(layout.alias));
}

LaunchTensors::LaunchTensors(const KernelSpec& spec, std::int64_t rows, const Layout& layout) : spec_(spec), rows_(rows) {
  for (Operand operand : kOperands) {
    const Operand owner = owner_of(layout.alias, operand);
    owner_[index_of(operand)] = index_of(owner);
    if (!has_operand(spec, operand) || owner != operand) continue;
    const std::int64_t elements = operand_elements(spec, operand);
    const std::int64_t stride = layout.strides[index_of(operand)] != 0 ? layout.strides[index_of(operand)] : elements;
    tensors_[index_of(operand)].emplace(operand_dtype(spec, operand), is_row_operand(operand) ? rows : 1, elements, stride,
                                        layout.offset_bytes[index_of(operand)]);
  }
}

std::vector<Tensor*> LaunchTensors::tensors() {
  std::vector<Tensor*> present;
  for (auto& tensor : tensors_) {
    if (tensor) present.push_back(&*tensor);
  }
  return present;
}

void LaunchTensors::set_weights(const RowValues& values) {
  for (Operand operand : {Operand::gamma, Operand::alpha, Operand::beta}) {
    if (has_operand(spec_, operand)) tensor(operand).set_row(0, values[index_of(operand)]);
  }
}

void LaunchTensors::set_row(std::int64_t row, const RowValues& values) {
  for (Operand operand : {Operand::x, Operand::residual}) {
    if (has_operand(spec_, operand)) tensor(operand).set_row(row, values[index_of(operand)]);
  }
}

RowValues LaunchTensors::inputs(std::int64_t row) {
  RowValues values;
  for (Operand operand : kOperands) {
    if (has_operand(spec_, operand) && !is_output(operand))
      values[index_of(operand)] = tensor(operand).row(is_row_operand(operand) ? row : 0);
  }
  return values;
}

LaunchArguments LaunchTensors::arguments() {
  LaunchArguments arguments;
  arguments.rows = rows_;
  for (Operand operand : kOperands) {
    if (!has_operand(spec_, operand)) continue;
    arguments.address(operand) = tensor(operand).address();
    arguments.stride(operand) = tensor(operand).stride();
  }
  return arguments;
}

void LaunchTensors::seal() {
  for (auto& tensor : tensors_) {
    if (tensor) tensor->seal();
  }
}

std::string LaunchTensors::damage() {
  std::set<std::size_t> written;
  for (Operand operand : {Operand::y, Operand::residual_out}) written.insert(place(operand));
  for (Operand operand : kOperands) {
    const std::size_t index = index_of(operand);
    if (!tensors_[index]) continue;
    if (!tensors_[index]->are_guards_intact()) return fmt::format("wrote outside the rows of {}", headnorm::to_text(operand));
    if (written.count(index) == 0 && !tensors_[index]->is_unchanged())
      return fmt::format("wrote to {}", headnorm::to_text(operand));
  }
  return "";
}

}  // namespace headnorm::test
