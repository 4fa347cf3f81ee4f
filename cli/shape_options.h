// Shape options: what every verb takes to say which kernel is meant, and the KernelSpec that they amount to.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/presets.h"
#include "core/kernel_spec.h"
#include "core/plan.h"

namespace CLI {
class App;
}

namespace headnorm::cli {

// The options as they were typed; parsed by make_shape, so that every error names its option.
struct ShapeOptions {
  using Text = std::optional<std::string>;
  Text preset, spec, width, head_size, heads, pass, stat, dtype, residual_dtype, weight_dtype, out_dtype, weight, weight_offset,
      eps, residual, residual_scale, gate, seed_heads, seed_scale, sigma, rounding, norm_input, mode;
  std::array<Text, 7> later;  // options of variants to come, refused by name

  void declare(CLI::App& command);
  bool names_shape() const { return preset || spec || width; }
  bool names_dtype() const { return preset || spec || dtype; }
};

struct Shape {
  KernelSpec spec;
  const Preset* preset = nullptr;
};

// Errors (user): a value that breaks a rule, options that contradict each other, an option of a later version.
Result<Shape> make_shape(const ShapeOptions& options);

// "1,64,4096": row counts from 1 to 2^36, in the order given, without repetitions.
Result<std::vector<std::int64_t>> parse_rows(const std::string& text);

// --target and --schedule of a verb, and the plan that they and the shape make.
struct PlanOptions {
  std::string target = "host";
  std::optional<std::string> schedule;  // none: default_schedule

  void declare(CLI::App& command);
};
// What they ask for, legal or not.
struct AskedPlan {
  Target target;
  Schedule schedule;
};
Result<AskedPlan> read_plan_options(const KernelSpec& spec, const PlanOptions& options);
Result<Plan> make_plan_of(const KernelSpec& spec, const PlanOptions& options);

}  // namespace headnorm::cli
