#include "generator/backend/cuda_c/description.h"

#include <fmt/format.h>

#include "generator/backend/nvptx/header.h"

namespace headnorm::cuda_c {
namespace {

std::string number(double value) { return fmt::format("{}", static_cast<float>(value)); }

// The argument of sigma.
std::string seed(const KernelSpec& spec) {
  return spec.seed_scale == 1 ? "sum(u * beta)" : fmt::format("{} * sum(u * beta)", number(spec.seed_scale));
}

std::string gain(const KernelSpec& spec) {
  std::string gamma = spec.has_gamma() ? "gamma" : "1";
  if (spec.weight == WeightForm::shared) gamma += "[channel of the head]";
  if (spec.weight == WeightForm::head) gamma += "[head]";
  if (spec.weight_offset != 0) gamma = number(spec.weight_offset) + " + " + gamma;
  return spec.has_gate() ? gamma + " + s * alpha" : gamma;
}

std::string y(const KernelSpec& spec) {
  const std::string n = spec.rounding == Rounding::llama ? fmt::format("{}(u * inv_rms)", to_text(spec.x_dtype)) : "u * inv_rms";
  return spec.has_gamma() || spec.has_gate() ? fmt::format("{} * ({})", n, gain(spec)) : n;
}

std::string u(const KernelSpec& spec) {
  if (!spec.has_residual()) return "x";
  const std::string scale = spec.residual_scale == 1 ? "" : number(spec.residual_scale) + " * ";
  const bool is_rounded = spec.norm_input == NormInput::rounded;
  const std::string sum = fmt::format("x + {}residual", scale);
  return is_rounded ? fmt::format("{}({})", to_text(spec.residual_dtype), sum) : sum;
}

}  // namespace

std::string render_description(const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  std::string text = nvptx::render_header(plan);
  while (text.ends_with('\n')) text.pop_back();
  text += "\n// formula\n";
  const auto line = [&](std::string_view name, const std::string& value) { text += fmt::format("//   {:<14} {}\n", name, value); };
  line("u", u(spec) + (spec.has_residual() ? ", stored as residual_out" : ""));
  line("inv_rms",
       fmt::format("1 / sqrt(sum(u * u) / {0} + {1}), over the {0} channels of each head", spec.head_size, number(spec.eps)));
  if (spec.has_gate())
    line("s", fmt::format("{}({}), over the {} channels of each seed head", to_text(spec.sigma), seed(spec),
                          spec.width / spec.seed_heads));
  line("y", y(spec));
  if (spec.mode == Mode::safe_range)
    text += "//   The sums are taken of values scaled by powers of two, so that no square leaves f32.\n";
  text.pop_back();
  return text;
}

}  // namespace headnorm::cuda_c
