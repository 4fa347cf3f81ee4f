#include "generator/backend/cuda_c/self_test.h"

#include <fmt/format.h>

#include "core/artifact.h"
#include "core/error_bound.h"
#include "generator/backend/cuda_c/template.h"
#include "generator/backend/cuda_c/writer.h"

namespace headnorm::cuda_c {
namespace {

const char* format_of(Dtype dtype) {
  return dtype == Dtype::f32 ? "{4, 24, -126}" : dtype == Dtype::f16 ? "{2, 11, -14}" : "{2, 8, -126}";
}

std::string render_spec(const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  const Arithmetic arithmetic = arithmetic_of(plan);
  std::string text;
  const auto integer = [&](const char* name, std::int64_t value) { text += fmt::format("constexpr int {} = {};\n", name, value); };
  const auto flag = [&](const char* name, bool value) { text += fmt::format("constexpr bool {} = {};\n", name, value); };
  const auto real = [&](const char* name, double value) {  // as the kernel has it
    text += fmt::format("constexpr double {} = {};\n", name, static_cast<double>(static_cast<float>(value)));
  };
  integer("kWidth", spec.width);
  integer("kHeadSize", spec.head_size);
  integer("kSeedHeads", spec.has_gate() ? spec.seed_heads : 1);
  text += fmt::format("constexpr Weight kWeight = Weight::{};\n", to_text(spec.weight));
  text += fmt::format("constexpr Sigma kSigma = Sigma::{};\n", to_text(spec.sigma));
  flag("kHasResidual", spec.has_residual());
  flag("kHasGate", spec.has_gate());
  flag("kRoundsBeforeGain", spec.rounding == Rounding::llama);
  flag("kNormTakesRounded", spec.norm_input == NormInput::rounded);
  real("kEps", spec.eps);
  real("kWeightOffset", spec.weight_offset);
  real("kResidualScale", spec.residual_scale);
  real("kSeedScale", spec.seed_scale);
  text += "// Roundings that a term of a sum goes through at most.\n";
  integer("kHeadAdditions", arithmetic.head_additions);
  integer("kSeedAdditions", spec.has_gate() ? arithmetic.seed_additions : 0);
  return text;
}

// Formats follow the definitions of the types that they name.
std::string render_formats(const KernelSpec& spec) {
  std::string text;
  for (const auto& [name, dtype] : {std::pair("kXFormat", spec.x_dtype), std::pair("kResidualFormat", spec.residual_dtype),
                                    std::pair("kWeightFormat", spec.weight_dtype), std::pair("kYFormat", spec.y_dtype)})
    text += fmt::format("constexpr Format {} = {};  // {}\n", name, format_of(dtype), to_text(dtype));
  return text;
}

// The tensor that an operand is in: in place, outputs are where inputs were.
std::string tensor_of(const KernelSpec& spec, Operand operand) {
  if (spec.residual == Residual::inplace && operand == Operand::y) return "x";
  if (spec.residual == Residual::inplace && operand == Operand::residual_out) return "residual";
  return to_text(operand);
}

std::string render_arguments(const KernelSpec& spec) {
  std::vector<std::string> arguments = {"nullptr"};
  for (const Parameter& parameter : launch_parameters(spec)) {
    if (parameter.kind == ParameterKind::pointer) arguments.push_back(tensor_of(spec, parameter.operand) + ".device");
    if (parameter.kind == ParameterKind::stride) arguments.push_back("kWidth");
    if (parameter.kind == ParameterKind::rows) arguments.push_back("kRows");
  }
  return join_lines(arguments, 6);
}

}  // namespace

Result<std::string> render_self_test(const Plan& plan) {
  // More rows than one tile, and a last tile that is not full.
  const int rows = 2 * plan.gpu().rows_per_tile + 1;
  return fill_template("self_test", {{"spec", render_spec(plan)},
                                     {"formats", render_formats(plan.spec)},
                                     {"rows", fmt::to_string(rows)},
                                     {"entry", entry_name(plan)},
                                     {"arguments", render_arguments(plan.spec)},
                                     {"y_tensor", tensor_of(plan.spec, Operand::y)},
                                     {"u_tensor", tensor_of(plan.spec, Operand::residual_out)}});
}

}  // namespace headnorm::cuda_c
