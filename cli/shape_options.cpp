#include "cli/shape_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/text_option.h"
#include "core/counted.h"
#include "core/text.h"

namespace headnorm::cli {
namespace {

using Text = ShapeOptions::Text;

struct OptionRow {
  const char* name;
  Text ShapeOptions::*value;
  const char* type;
  const char* help;
};

constexpr OptionRow kOptionRows[] = {
    {"--preset", &ShapeOptions::preset, "PRESET", "a model's shape ('headnorm presets' lists them)"},
    {"--spec", &ShapeOptions::spec, "TEXT", "canonical text of a kernel ('headnorm explain' prints it)"},
    {"--width", &ShapeOptions::width, "D", "features of a row"},
    {"--head-size", &ShapeOptions::head_size, "SIZE|auto", "features of a head (auto: the divisor nearest 256)"},
    {"--heads", &ShapeOptions::heads, "H", "number of heads, instead of --head-size"},
    {"--pass", &ShapeOptions::pass, "forward", "forward (backward: later)"},
    {"--stat", &ShapeOptions::stat, "rms", "rms (layernorm, none: later)"},
    {"--dtype", &ShapeOptions::dtype, "DTYPE", "f32, f16 or bf16: of x, residual, weights and y unless named (bf16)"},
    {"--residual-dtype", &ShapeOptions::residual_dtype, "DTYPE", "of the residual stream"},
    {"--weight-dtype", &ShapeOptions::weight_dtype, "DTYPE", "of gamma, alpha and beta"},
    {"--out-dtype", &ShapeOptions::out_dtype, "DTYPE", "of y"},
    {"--weight", &ShapeOptions::weight, "none|channel|shared|head", "gamma: none, [D], [d] or [H] (channel)"},
    {"--weight-offset", &ShapeOptions::weight_offset, "NUMBER", "added to gamma (0); 1 for weights around zero"},
    {"--eps", &ShapeOptions::eps, "NUMBER", "inside the root (1e-6)"},
    {"--residual", &ShapeOptions::residual, "none|add|inplace", "add: u to a tensor of its own (none)"},
    {"--residual-scale", &ShapeOptions::residual_scale, "NUMBER", "factor of the residual (1); DeepNorm's alpha"},
    {"--gate", &ShapeOptions::gate, "none|seednorm", "SeeDNorm's gate (none)"},
    {"--seed-heads", &ShapeOptions::seed_heads, "S", "heads of the gate's dot product (H)"},
    {"--seed-scale", &ShapeOptions::seed_scale, "NUMBER", "factor inside sigma (1)"},
    {"--sigma", &ShapeOptions::sigma, "tanh|sigmoid|softsign|hardtanh", "of the gate (tanh)"},
    {"--rounding", &ShapeOptions::rounding, "once|llama", "llama: cast before the weight (once)"},
    {"--norm-input", &ShapeOptions::norm_input, "rounded|unrounded", "which sum is normalised (rounded)"},
    {"--mode", &ShapeOptions::mode, "default|batch-invariant|safe-range",
     "default: sums in f32, in the order of the schedule; batch-invariant: the same bits with any schedule; safe-range: right for "
     "every finite u = x + residual, if of each seed head "
     "sum|beta| < 2^64"},
};

constexpr std::array kLaterOptions = {"--residual-gate", "--layer-scale",  "--modulation", "--silu-gate",
                                      "--quant",         "--scale-layout", "--head-order"};

Error not_in_this_version(const std::string& what, const std::string& remedy) {
  return user_error(fmt::format("{} is not in this version (headnorm {})", what, HEADNORM_VERSION), remedy);
}

// The value of an option that has a single value so far.
Result<void> refuse_later(const char* name, const Text& value, const char* now, const std::vector<std::string>& later) {
  if (!value || *value == now) return {};
  if (std::ranges::find(later, *value) != later.end())
    return not_in_this_version(fmt::format("{} {}", name, *value), fmt::format("leave {} at {}", name, now));
  return user_error(fmt::format("{} does not know '{}'", name, *value), fmt::format("use {} {}", name, now));
}

Result<void> refuse_all_later(const ShapeOptions& options) {
  HEADNORM_CHECK(refuse_later("--pass", options.pass, "forward", {"backward"}));
  HEADNORM_CHECK(refuse_later("--stat", options.stat, "rms", {"layernorm", "none"}));
  for (std::size_t i = 0; i < kLaterOptions.size(); ++i) {
    if (options.later[i]) return not_in_this_version(kLaterOptions[i], "leave it out");
  }
  return {};
}

// Reads an option that was given into `field`; its errors begin with the option's name.
template <class T, class Parse>
Result<void> apply(const char* name, const Text& value, T& field, Parse parse) {
  if (!value) return {};
  auto parsed = parse(std::string_view(*value));
  if (!parsed.ok()) return user_error(fmt::format("{}: {}", name, parsed.error().message), parsed.error().remedy);
  field = *parsed;
  return {};
}

// A parser whose remedy gives `example`.
auto integer_like(const char* example) {
  return [example](std::string_view text) { return text::parse_integer(text, "value", example); };
}
auto number_like(const char* example) {
  return [example](std::string_view text) { return text::parse_number(text, "value", example); };
}

Result<Shape> base_shape(const ShapeOptions& options) {
  Shape shape;
  if (options.preset && options.spec)
    return user_error(fmt::format("--preset {} and --spec {} both name a whole kernel", *options.preset, *options.spec),
                      "give one of the two; single options override it");
  if (!options.names_shape())
    return user_error("no shape is given: --preset, --spec and --width are all missing",
                      "give --preset wide-vit-4096 ('headnorm presets' lists more), or --width D");
  if (options.preset) {
    HEADNORM_TRY(shape.preset, find_preset(*options.preset));
    HEADNORM_TRY(shape.spec, preset_spec(*shape.preset));
  }
  HEADNORM_CHECK(apply("--spec", options.spec, shape.spec, [](std::string_view text) { return parse_spec(text); }));
  return shape;
}

Result<void> apply_dtypes(const ShapeOptions& options, KernelSpec& spec) {
  if (options.dtype) {
    HEADNORM_CHECK(apply("--dtype", options.dtype, spec.x_dtype, parse_dtype));
    spec.residual_dtype = spec.weight_dtype = spec.y_dtype = spec.x_dtype;
  } else if (options.spec) {
    // A spec without a residual or weights has no dtype of its own for them.
    if (!spec.has_residual()) spec.residual_dtype = spec.x_dtype;
    if (!spec.has_gamma() && !spec.has_gate()) spec.weight_dtype = spec.x_dtype;
  }
  HEADNORM_CHECK(apply("--residual-dtype", options.residual_dtype, spec.residual_dtype, parse_dtype));
  HEADNORM_CHECK(apply("--weight-dtype", options.weight_dtype, spec.weight_dtype, parse_dtype));
  return apply("--out-dtype", options.out_dtype, spec.y_dtype, parse_dtype);
}

// Refuses an option that was given where it has no effect. To be asked once its value is known to be one.
Result<void> refuse_idle(const char* name, const Text& value, const char* lack, const char* remedy) {
  if (!value) return {};
  return user_error(fmt::format("{} {} has no effect without {}", name, *value, lack), fmt::format("{}, or leave it out", remedy));
}

// The rules of make_spec for the width alone.
Result<void> check_width(std::int64_t width) {
  KernelSpec one_head;
  one_head.width = one_head.head_size = width;
  HEADNORM_CHECK(make_spec(one_head));
  return {};
}

Result<std::int64_t> head_size_of(std::int64_t width, const std::string& heads_text) {
  if (const std::size_t at = heads_text.find_first_of("x+"); at != std::string::npos && at > 0)  // "4x256+128"
    return not_in_this_version(fmt::format("--heads {} (heads of several sizes)", heads_text), "give one number of heads");
  std::int64_t heads = 0;
  HEADNORM_CHECK(apply("--heads", heads_text, heads, integer_like("16")));
  if (heads < 1 || width % heads != 0)
    return user_error(fmt::format("--heads {} does not divide width {}", heads, width),
                      fmt::format("the nearest that do: {}", fmt::join(nearest_divisors(width, heads, 4), ", ")));
  return width / heads;
}

// The head size that a preset or spec has for `width`. Where it is the automatic one of its own width, that of another width is
// automatic too; a single head stays one, and others keep their size where it divides. 0: none.
std::int64_t inherited_head_size(const KernelSpec& base, std::int64_t width) {
  if (base.width == width || base.width == 0) return base.head_size;
  const Result<std::int64_t> automatic = auto_head_size(base.width);
  if (automatic.ok() && *automatic == base.head_size) return 0;
  if (base.head_size == base.width) return width;
  return base.head_size > 0 && width % base.head_size == 0 ? base.head_size : 0;
}

// `base` is the head size that the preset or spec gives, or 0.
Result<std::int64_t> choose_head_size(const ShapeOptions& options, std::int64_t width, std::int64_t base) {
  const bool automatic = options.head_size == "auto";
  if (options.heads) {
    HEADNORM_TRY(const std::int64_t from_heads, head_size_of(width, *options.heads));
    std::int64_t given = from_heads;
    if (!automatic) HEADNORM_CHECK(apply("--head-size", options.head_size, given, integer_like("256")));
    if (given != from_heads)
      return user_error(fmt::format("--heads {} and --head-size {} disagree: width {} has {} of {}", *options.heads,
                                    *options.head_size, width, counted(width / from_heads, "head"), from_heads),
                        "give one of the two");
    return from_heads;
  }
  if (options.head_size && !automatic) {
    std::int64_t given = 0;
    HEADNORM_CHECK(apply("--head-size", options.head_size, given, integer_like("256")));
    return given;
  }
  return base > 0 && !automatic ? base : auto_head_size(width);
}

Result<void> apply_weight(const ShapeOptions& options, KernelSpec& spec) {
  const bool had_offset = spec.weight_offset != 0;
  HEADNORM_CHECK(apply("--weight", options.weight, spec.weight, parse_weight_form));
  HEADNORM_CHECK(apply("--weight-offset", options.weight_offset, spec.weight_offset, number_like("1")));
  const bool takes_it_away = had_offset && spec.weight_offset == 0;
  if (spec.has_gamma() || takes_it_away) return {};
  return refuse_idle("--weight-offset", options.weight_offset, "a weight", "add --weight channel");
}

Result<void> apply_residual(const ShapeOptions& options, KernelSpec& spec) {
  HEADNORM_CHECK(apply("--residual", options.residual, spec.residual, parse_residual));
  HEADNORM_CHECK(apply("--residual-scale", options.residual_scale, spec.residual_scale, number_like("2.8284")));
  HEADNORM_CHECK(apply("--norm-input", options.norm_input, spec.norm_input, parse_norm_input));
  if (spec.has_residual()) return {};
  HEADNORM_CHECK(refuse_idle("--residual-scale", options.residual_scale, "a residual", "add --residual add"));
  return refuse_idle("--norm-input", options.norm_input, "a residual", "add --residual add");
}

Result<void> apply_gate(const ShapeOptions& options, KernelSpec& spec) {
  const char* remedy = "add --gate seednorm";
  HEADNORM_CHECK(apply("--gate", options.gate, spec.gate, parse_gate));
  HEADNORM_CHECK(apply("--seed-heads", options.seed_heads, spec.seed_heads, integer_like("16")));
  HEADNORM_CHECK(apply("--seed-scale", options.seed_scale, spec.seed_scale, number_like("0.5")));
  HEADNORM_CHECK(apply("--sigma", options.sigma, spec.sigma, parse_sigma));
  if (spec.has_gate()) return {};
  HEADNORM_CHECK(refuse_idle("--seed-heads", options.seed_heads, "a gate", remedy));
  HEADNORM_CHECK(refuse_idle("--seed-scale", options.seed_scale, "a gate", remedy));
  return refuse_idle("--sigma", options.sigma, "a gate", remedy);
}

// After the gate, which has weights of its own.
Result<void> apply_rounding(const ShapeOptions& options, KernelSpec& spec) {
  HEADNORM_CHECK(apply("--rounding", options.rounding, spec.rounding, parse_rounding));
  const bool between = spec.has_gamma() || spec.has_gate() || spec.x_dtype != spec.y_dtype;
  if (between || spec.rounding == Rounding::once) return {};
  return refuse_idle("--rounding", options.rounding, "a weight or a gate", "add --weight channel");
}

}  // namespace

void ShapeOptions::declare(CLI::App& command) {
  for (const OptionRow& row : kOptionRows) add_text_option(command, row.name, this->*row.value, row.type, row.help, "Shape");
  // Accepted, and refused with the reason; not shown in the help.
  for (std::size_t i = 0; i < kLaterOptions.size(); ++i) add_text_option(command, kLaterOptions[i], later[i], "", "", "");
}

Result<Shape> make_shape(const ShapeOptions& options) {
  HEADNORM_CHECK(refuse_all_later(options));
  HEADNORM_TRY(Shape shape, base_shape(options));
  KernelSpec& spec = shape.spec;
  const KernelSpec base = spec;
  HEADNORM_CHECK(apply_dtypes(options, spec));
  HEADNORM_CHECK(apply("--width", options.width, spec.width, integer_like("4096")));
  HEADNORM_CHECK(check_width(spec.width));
  HEADNORM_TRY(spec.head_size, choose_head_size(options, spec.width, inherited_head_size(base, spec.width)));
  HEADNORM_CHECK(apply_weight(options, spec));
  HEADNORM_CHECK(apply("--eps", options.eps, spec.eps, number_like("1e-6")));
  HEADNORM_CHECK(apply_residual(options, spec));
  HEADNORM_CHECK(apply("--mode", options.mode, spec.mode, parse_mode));
  // The seed heads of another shape are of no use for this one.
  const bool keeps_shape = spec.width == base.width && spec.head_size == base.head_size;
  if (!base.has_gate() || !keeps_shape) spec.seed_heads = spec.head_size > 0 ? spec.heads() : 0;
  HEADNORM_CHECK(apply_gate(options, spec));
  HEADNORM_CHECK(apply_rounding(options, spec));
  HEADNORM_TRY(spec, make_spec(spec));
  return shape;
}

Result<std::vector<std::int64_t>> parse_rows(const std::string& text) {
  constexpr std::int64_t kMostRows = std::int64_t{1} << 36;
  std::vector<std::int64_t> rows;
  for (std::string_view item : text::split(text, ',')) {
    std::int64_t count = 0;
    HEADNORM_CHECK(apply("--rows", std::string(item), count, integer_like("--rows 1,64,4096")));
    if (count < 1 || count > kMostRows)
      return user_error(fmt::format("--rows {} is outside 1 to {}", count, kMostRows), "give counts such as --rows 1,64,4096");
    if (std::ranges::find(rows, count) == rows.end()) rows.push_back(count);
  }
  return rows;
}

void PlanOptions::declare(CLI::App& command) {
  add_text_option(command, "--target", target, "TARGET", target_choices() + " (host); a GPU also with a PTX version: sm_90+ptx86");
  add_text_option(command, "--schedule", schedule, "TEXT", "canonical text of a schedule (a default that needs no tuning)");
}

Result<AskedPlan> read_plan_options(const KernelSpec& spec, const PlanOptions& options) {
  AskedPlan asked;
  HEADNORM_TRY(asked.target, parse_target(options.target));
  if (!options.schedule) return AskedPlan{asked.target, default_schedule(spec, asked.target)};
  HEADNORM_TRY(asked.schedule, parse_schedule(*options.schedule, asked.target.kind));
  return asked;
}

Result<Plan> make_plan_of(const KernelSpec& spec, const PlanOptions& options) {
  HEADNORM_TRY(const AskedPlan asked, read_plan_options(spec, options));
  return make_plan(spec, asked.schedule, asked.target);
}

}  // namespace headnorm::cli
