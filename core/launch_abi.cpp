#include "core/launch_abi.h"

namespace headnorm {

const char* to_text(Operand operand) {
  constexpr const char* kNames[] = {"x", "residual", "gamma", "alpha", "beta", "y", "residual_out"};
  return kNames[static_cast<int>(operand)];
}

bool has_operand(const KernelSpec& spec, Operand operand) {
  switch (operand) {
    case Operand::x:
    case Operand::y:
      return true;
    case Operand::residual:
    case Operand::residual_out:
      return spec.has_residual();
    case Operand::gamma:
      return spec.has_gamma();
    case Operand::alpha:
    case Operand::beta:
      return spec.has_gate();
  }
  return false;
}

Dtype operand_dtype(const KernelSpec& spec, Operand operand) {
  switch (operand) {
    case Operand::x:
      return spec.x_dtype;
    case Operand::y:
      return spec.y_dtype;
    case Operand::residual:
    case Operand::residual_out:
      return spec.residual_dtype;
    case Operand::gamma:
    case Operand::alpha:
    case Operand::beta:
      return spec.weight_dtype;
  }
  return spec.x_dtype;
}

std::int64_t operand_elements(const KernelSpec& spec, Operand operand) {
  if (operand != Operand::gamma) return spec.width;
  switch (spec.weight) {
    case WeightForm::none:
      return 0;
    case WeightForm::channel:
      return spec.width;
    case WeightForm::shared:
      return spec.head_size;
    case WeightForm::head:
      return spec.heads();
  }
  return 0;
}

std::vector<Parameter> launch_parameters(const KernelSpec& spec) {
  std::vector<Parameter> parameters;
  for (Operand operand : kOperands) {
    if (has_operand(spec, operand)) parameters.push_back({ParameterKind::pointer, operand, to_text(operand)});
  }
  for (Operand operand : kOperands) {
    if (is_row_operand(operand) && has_operand(spec, operand))
      parameters.push_back({ParameterKind::stride, operand, std::string(to_text(operand)) + "_stride"});
  }
  parameters.push_back({ParameterKind::rows, Operand::x, "rows"});
  return parameters;
}

namespace {

template <class Predicate>
int index_among(const KernelSpec& spec, Operand wanted, Predicate counts) {
  int index = 0;
  for (Operand operand : kOperands) {
    if (!counts(operand) || !has_operand(spec, operand)) continue;
    if (operand == wanted) return index;
    ++index;
  }
  return -1;
}

template <class Predicate>
int count_of(const KernelSpec& spec, Predicate counts) {
  int count = 0;
  for (Operand operand : kOperands) count += counts(operand) && has_operand(spec, operand) ? 1 : 0;
  return count;
}

constexpr auto kAny = [](Operand) { return true; };

}  // namespace

int pointer_count(const KernelSpec& spec) { return count_of(spec, kAny); }
int stride_count(const KernelSpec& spec) { return count_of(spec, is_row_operand); }
int pointer_index(const KernelSpec& spec, Operand operand) { return index_among(spec, operand, kAny); }
int stride_index(const KernelSpec& spec, Operand operand) { return index_among(spec, operand, is_row_operand); }

}  // namespace headnorm
