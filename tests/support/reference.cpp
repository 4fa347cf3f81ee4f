#include "tests/support/reference.h"

#include <cmath>

namespace headnorm::test {
namespace {

using Row = std::vector<double>;

const Row& values_of(const RowValues& inputs, Operand operand) { return inputs[static_cast<std::size_t>(operand)]; }

double as_f32(double value) { return static_cast<double>(static_cast<float>(value)); }

// The sum is an f32 number before it is stored, and the stored value is what the norm takes with norm input 'rounded'. A sum stored
// as f32 and a scaled residual stay exact here: the bound has room for their one rounding.
Row normalised_input(const KernelSpec& spec, const RowValues& inputs) {
  Row u = values_of(inputs, Operand::x);
  if (spec.residual == Residual::none) return u;
  const Row& residual = values_of(inputs, Operand::residual);
  for (std::size_t i = 0; i < u.size(); ++i) {
    u[i] += as_f32(spec.residual_scale) * residual[i];
    if (spec.norm_input == NormInput::rounded && spec.residual_dtype != Dtype::f32)
      u[i] = round_to_dtype(as_f32(u[i]), spec.residual_dtype);
  }
  return u;
}

double inverse_rms(const Row& u, std::size_t begin, std::size_t size, double eps) {
  double sum = 0;
  for (std::size_t i = begin; i < begin + size; ++i) sum += u[i] * u[i];
  return 1.0 / std::sqrt(sum / static_cast<double>(size) + as_f32(eps));
}

double apply_sigma(Sigma sigma, double z) {
  if (sigma == Sigma::tanh) return std::tanh(z);
  if (sigma == Sigma::sigmoid) return 1.0 / (1.0 + std::exp(-z));
  if (sigma == Sigma::softsign) return z / (1.0 + std::fabs(z));
  return z < -1 ? -1 : z > 1 ? 1 : z;
}

double gamma_of(const KernelSpec& spec, const Row& gamma, std::size_t channel) {
  const auto head_size = static_cast<std::size_t>(spec.head_size);
  if (spec.weight == WeightForm::none) return 1.0;
  if (spec.weight == WeightForm::channel) return gamma[channel];
  if (spec.weight == WeightForm::shared) return gamma[channel % head_size];
  return gamma[channel / head_size];
}

}  // namespace

ReferenceRow reference_row(const KernelSpec& spec, const RowValues& inputs) {
  const auto width = static_cast<std::size_t>(spec.width), head_size = static_cast<std::size_t>(spec.head_size);
  const Row u = normalised_input(spec, inputs);

  Row n(width);
  for (std::size_t begin = 0; begin < width; begin += head_size) {
    const double inv_rms = inverse_rms(u, begin, head_size, spec.eps);
    for (std::size_t i = begin; i < begin + head_size; ++i) {
      n[i] = u[i] * inv_rms;
      if (spec.rounding == Rounding::llama) n[i] = round_to_dtype(n[i], spec.x_dtype);
    }
  }

  ReferenceRow row;
  row.y.resize(width);
  for (std::size_t i = 0; i < width; ++i)
    row.y[i] = n[i] * (as_f32(spec.weight_offset) + gamma_of(spec, values_of(inputs, Operand::gamma), i));

  if (spec.gate == Gate::seednorm) {
    const Row &alpha = values_of(inputs, Operand::alpha), &beta = values_of(inputs, Operand::beta);
    const std::size_t seed_size = width / static_cast<std::size_t>(spec.seed_heads);
    for (std::size_t begin = 0; begin < width; begin += seed_size) {
      double dot = 0;
      for (std::size_t i = begin; i < begin + seed_size; ++i) dot += u[i] * beta[i];
      const double s = apply_sigma(spec.sigma, as_f32(spec.seed_scale) * dot);
      for (std::size_t i = begin; i < begin + seed_size; ++i)
        row.y[i] = n[i] * (as_f32(spec.weight_offset) + gamma_of(spec, values_of(inputs, Operand::gamma), i) + s * alpha[i]);
    }
  }
  if (spec.residual != Residual::none) row.residual_out = u;
  return row;
}

}  // namespace headnorm::test
