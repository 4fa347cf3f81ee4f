#include "core/kernel_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"

namespace headnorm {

const char* to_text(Residual value) {
  constexpr const char* kNames[] = {"none", "add", "inplace"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(WeightForm value) {
  constexpr const char* kNames[] = {"none", "channel", "shared", "head"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(Gate value) {
  constexpr const char* kNames[] = {"none", "seednorm"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(Sigma value) {
  constexpr const char* kNames[] = {"tanh", "sigmoid", "softsign", "hardtanh"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(Rounding value) {
  constexpr const char* kNames[] = {"once", "llama"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(NormInput value) {
  constexpr const char* kNames[] = {"rounded", "unrounded"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(Mode value) {
  constexpr const char* kNames[] = {"default", "batch-invariant", "safe-range"};
  return kNames[static_cast<int>(value)];
}

Result<Residual> parse_residual(std::string_view text) {
  return text::parse_enum(text, "residual mode", std::array{Residual::none, Residual::add, Residual::inplace});
}
Result<WeightForm> parse_weight_form(std::string_view text) {
  return text::parse_enum(text, "weight form",
                          std::array{WeightForm::none, WeightForm::channel, WeightForm::shared, WeightForm::head});
}
Result<Gate> parse_gate(std::string_view text) { return text::parse_enum(text, "gate", std::array{Gate::none, Gate::seednorm}); }
Result<Sigma> parse_sigma(std::string_view text) {
  return text::parse_enum(text, "sigma", std::array{Sigma::tanh, Sigma::sigmoid, Sigma::softsign, Sigma::hardtanh});
}
Result<Rounding> parse_rounding(std::string_view text) {
  return text::parse_enum(text, "rounding", std::array{Rounding::once, Rounding::llama});
}
Result<NormInput> parse_norm_input(std::string_view text) {
  return text::parse_enum(text, "norm input", std::array{NormInput::rounded, NormInput::unrounded});
}
Result<Mode> parse_mode(std::string_view text) {
  return text::parse_enum(text, "mode", std::array{Mode::standard, Mode::batch_invariant, Mode::safe_range});
}

namespace {

std::vector<std::int64_t> divisors_of(std::int64_t width) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i * i <= width; ++i) {
    if (width % i != 0) continue;
    divisors.push_back(i);
    if (i != width / i) divisors.push_back(width / i);
  }
  return divisors;
}

// The `count` nearest to `wanted` in ratio, the smallest first.
std::vector<std::int64_t> nearest_of(std::vector<std::int64_t> divisors, std::int64_t wanted, int count) {
  const double target = std::log2(static_cast<double>(std::max<std::int64_t>(wanted, 1)));
  auto distance = [&](std::int64_t d) { return std::fabs(std::log2(static_cast<double>(d)) - target); };
  std::sort(divisors.begin(), divisors.end(),
            [&](std::int64_t a, std::int64_t b) { return distance(a) != distance(b) ? distance(a) < distance(b) : a < b; });
  if (divisors.size() > static_cast<std::size_t>(count)) divisors.resize(static_cast<std::size_t>(count));
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

}  // namespace

std::vector<std::int64_t> nearest_divisors(std::int64_t width, std::int64_t wanted, int count) {
  return nearest_of(divisors_of(width), wanted, count);
}

namespace {

Result<void> check_width(std::int64_t width) {
  if (width < 1 || width > kMaxWidth)
    return user_error(fmt::format("width {} is outside 1 to {}", width, kMaxWidth),
                      "give --width D, the number of features of a row");
  return {};
}

}  // namespace

Result<std::int64_t> auto_head_size(std::int64_t width) {
  HEADNORM_CHECK(check_width(width));
  if (width % 8 == 0) {
    // Divisors of D that are multiples of 8 are 8 times the divisors of D/8; 256 = 8 * 32.
    return 8 * nearest_divisors(width / 8, kDefaultHeadSize / 8, 1).front();
  }
  return user_error(fmt::format("width {} has no divisor that is a multiple of 8, so the head size 'auto' has no choice", width),
                    fmt::format("give --head-size; divisors of {} near {}: {}", width, kDefaultHeadSize,
                                fmt::join(nearest_divisors(width, kDefaultHeadSize, 5), ", ")));
}

namespace {

Result<void> check_number(std::string_view name, double value, std::string_view remedy) {
  if (std::isfinite(static_cast<float>(value))) return {};
  return user_error(fmt::format("{} {} is not a finite f32 number", name, value), std::string(remedy));
}

Result<void> check_numbers(const KernelSpec& spec) {
  if (!(spec.eps >= 0) || !std::isfinite(static_cast<float>(spec.eps)))
    return user_error(fmt::format("eps {} is not a finite number of at least 0", spec.eps), "give --eps 1e-6, say");
  HEADNORM_CHECK(check_number("weight offset", spec.weight_offset, "use 0, or 1 for weights stored around zero"));
  HEADNORM_CHECK(check_number("residual scale", spec.residual_scale, "give --residual-scale 1, say"));
  HEADNORM_CHECK(check_number("seed scale", spec.seed_scale, "give --seed-scale 1, say"));
  if (!spec.has_gamma() && spec.weight_offset != 0)
    return user_error(fmt::format("weight offset {} has no weight to be added to (weight none)", spec.weight_offset),
                      "leave --weight-offset at 0, or give --weight channel");
  return {};
}

bool nest(std::int64_t seeds, std::int64_t heads) { return heads % seeds == 0 || seeds % heads == 0; }

Result<void> check_seed_heads(const KernelSpec& spec) {
  if (!spec.has_gate()) return {};
  const std::int64_t heads = spec.heads(), seeds = spec.seed_heads;
  const bool divides = seeds >= 1 && spec.width % seeds == 0;
  if (divides && nest(seeds, heads)) return {};
  std::vector<std::int64_t> choices = divisors_of(spec.width);
  std::erase_if(choices, [&](std::int64_t choice) { return !nest(choice, heads); });
  const std::string remedy = fmt::format("the nearest --seed-heads that fit: {} ({}: one a head, 1: over the width)",
                                         fmt::join(nearest_of(std::move(choices), seeds, 4), ", "), heads);
  if (!divides) return user_error(fmt::format("{} seed heads do not divide width {}", seeds, spec.width), remedy);
  return user_error(fmt::format("{} seed heads and {} heads do not nest: neither divides the other", seeds, heads), remedy);
}

// The number with the shortest text that is the same in f32, in which it is used. -0 is 0.
double canonical_number(double value) {
  const float used = static_cast<float>(value);
  return used == 0 ? 0.0 : *text::parse_number(fmt::to_string(used), "number");
}

KernelSpec canonical_spec(KernelSpec spec) {
  spec.eps = canonical_number(spec.eps);
  spec.weight_offset = canonical_number(spec.weight_offset);
  spec.residual_scale = canonical_number(spec.residual_scale);
  spec.seed_scale = canonical_number(spec.seed_scale);
  if (spec.weight == WeightForm::shared && spec.heads() == 1) spec.weight = WeightForm::channel;
  if (spec.weight == WeightForm::head && spec.head_size == 1) spec.weight = WeightForm::channel;
  if (!spec.has_gate()) {
    spec.seed_heads = 0;
    spec.seed_scale = 1.0;
    spec.sigma = Sigma::tanh;
  }
  if (!spec.has_gamma() && !spec.has_gate()) {
    spec.weight_dtype = Dtype::f32;
    // Without a weight nothing stands between the cast and the store.
    if (spec.y_dtype == spec.x_dtype) spec.rounding = Rounding::once;
  }
  if (spec.x_dtype == Dtype::f32) spec.rounding = Rounding::once;
  if (!spec.has_residual()) {
    spec.residual_dtype = Dtype::f32;
    spec.residual_scale = 1.0;
  }
  // What is stored as f32, or not rounded at all, is the same rounded or not.
  if (spec.residual_dtype == Dtype::f32) spec.norm_input = NormInput::rounded;
  return spec;
}

}  // namespace

Result<KernelSpec> make_spec(const KernelSpec& spec) {
  HEADNORM_CHECK(check_width(spec.width));
  if (spec.head_size < 1 || spec.width % spec.head_size != 0)
    return user_error(
        fmt::format("head size {} does not divide width {}", spec.head_size, spec.width),
        fmt::format("the nearest head sizes that do: {}", fmt::join(nearest_divisors(spec.width, spec.head_size, 4), ", ")));
  HEADNORM_CHECK(check_numbers(spec));
  HEADNORM_CHECK(check_seed_heads(spec));
  if (spec.residual == Residual::inplace && spec.x_dtype != spec.y_dtype)
    return user_error(
        fmt::format("residual inplace writes y ({}) over x ({}): the dtypes differ", to_text(spec.y_dtype), to_text(spec.x_dtype)),
        "give --out-dtype the dtype of x, or use --residual add");
  return canonical_spec(spec);
}

std::string to_text(const KernelSpec& spec) {
  std::string text = fmt::format("width={},head_size={},x={},y={},weight={}", spec.width, spec.head_size, to_text(spec.x_dtype),
                                 to_text(spec.y_dtype), to_text(spec.weight));
  if (spec.has_gamma() || spec.has_gate()) text += fmt::format(":{}", to_text(spec.weight_dtype));
  text += fmt::format(",eps={}", spec.eps);
  if (spec.weight_offset != 0) text += fmt::format(",weight_offset={}", spec.weight_offset);
  if (spec.has_residual()) text += fmt::format(",residual={}:{}", to_text(spec.residual), to_text(spec.residual_dtype));
  if (spec.residual_scale != 1) text += fmt::format(",residual_scale={}", spec.residual_scale);
  if (spec.has_gate()) {
    text += fmt::format(",gate={},seed_heads={}", to_text(spec.gate), spec.seed_heads);
    if (spec.seed_scale != 1) text += fmt::format(",seed_scale={}", spec.seed_scale);
    if (spec.sigma != Sigma::tanh) text += fmt::format(",sigma={}", to_text(spec.sigma));
  }
  if (spec.rounding != Rounding::once) text += fmt::format(",rounding={}", to_text(spec.rounding));
  if (spec.norm_input != NormInput::rounded) text += fmt::format(",norm_input={}", to_text(spec.norm_input));
  if (spec.mode != Mode::standard) text += fmt::format(",mode={}", to_text(spec.mode));
  return text;
}

namespace {

template <class T>
Result<void> assign(T& place, Result<T> value) {
  HEADNORM_TRY(place, std::move(value));
  return {};
}

// A spec as read so far, and which of the fields with a computed default it gave.
struct SpecText {
  KernelSpec spec;
  bool has_width = false, has_head_size = false, has_seed_heads = false;
};

// "form:dtype", the dtype optional.
template <class Form>
Result<void> set_form(std::string_view value, Result<Form> (*parse_form)(std::string_view), Form& form, Dtype& dtype) {
  const std::size_t colon = value.find(':');
  HEADNORM_TRY(form, parse_form(value.substr(0, colon)));
  if (colon == std::string_view::npos || colon + 1 == value.size()) return {};
  return assign(dtype, parse_dtype(value.substr(colon + 1)));
}

struct SpecField {
  std::string_view key;
  Result<void> (*set)(SpecText& text, std::string_view value);
};

constexpr SpecField kSpecFields[] = {
    {"width",
     [](SpecText& text, std::string_view value) {
       text.has_width = true;
       return assign(text.spec.width, text::parse_integer(value, "width", "4096"));
     }},
    {"head_size",
     [](SpecText& text, std::string_view value) {
       text.has_head_size = true;
       return assign(text.spec.head_size, text::parse_integer(value, "head size", "256"));
     }},
    {"x", [](SpecText& text, std::string_view value) { return assign(text.spec.x_dtype, parse_dtype(value)); }},
    {"y", [](SpecText& text, std::string_view value) { return assign(text.spec.y_dtype, parse_dtype(value)); }},
    {"weight", [](SpecText& text,
                  std::string_view value) { return set_form(value, parse_weight_form, text.spec.weight, text.spec.weight_dtype); }},
    {"eps", [](SpecText& text, std::string_view value) { return assign(text.spec.eps, text::parse_number(value, "eps", "1e-6")); }},
    {"weight_offset",
     [](SpecText& text, std::string_view value) {
       return assign(text.spec.weight_offset, text::parse_number(value, "weight offset"));
     }},
    {"residual",
     [](SpecText& text, std::string_view value) {
       return set_form(value, parse_residual, text.spec.residual, text.spec.residual_dtype);
     }},
    {"residual_scale",
     [](SpecText& text, std::string_view value) {
       return assign(text.spec.residual_scale, text::parse_number(value, "residual scale"));
     }},
    {"gate", [](SpecText& text, std::string_view value) { return assign(text.spec.gate, parse_gate(value)); }},
    {"seed_heads",
     [](SpecText& text, std::string_view value) {
       text.has_seed_heads = true;
       return assign(text.spec.seed_heads, text::parse_integer(value, "seed heads", "16"));
     }},
    {"seed_scale",
     [](SpecText& text, std::string_view value) { return assign(text.spec.seed_scale, text::parse_number(value, "seed scale")); }},
    {"sigma", [](SpecText& text, std::string_view value) { return assign(text.spec.sigma, parse_sigma(value)); }},
    {"rounding", [](SpecText& text, std::string_view value) { return assign(text.spec.rounding, parse_rounding(value)); }},
    {"norm_input", [](SpecText& text, std::string_view value) { return assign(text.spec.norm_input, parse_norm_input(value)); }},
    {"mode", [](SpecText& text, std::string_view value) { return assign(text.spec.mode, parse_mode(value)); }},
};

Result<void> set_field(SpecText& text, std::string_view key, std::string_view value) {
  std::vector<std::string_view> keys;
  for (const SpecField& field : kSpecFields) {
    if (field.key == key) return field.set(text, value);
    keys.push_back(field.key);
  }
  return user_error(fmt::format("'{}' is not a field of a spec", key), fmt::format("fields: {}", fmt::join(keys, ", ")));
}

}  // namespace

Result<KernelSpec> parse_spec(std::string_view text) {
  SpecText read;
  HEADNORM_CHECK(text::for_each_field(text, "spec",
                                      [&](std::string_view key, std::string_view value) { return set_field(read, key, value); }));
  KernelSpec& spec = read.spec;
  if (!read.has_width)
    return user_error(fmt::format("the spec text '{}' has no width", text), "add width=D, e.g. width=4096,head_size=256");
  if (!read.has_head_size) {
    HEADNORM_TRY(spec.head_size, auto_head_size(spec.width));
  }
  if (spec.has_gate() && !read.has_seed_heads && spec.head_size > 0) spec.seed_heads = spec.width / spec.head_size;
  return make_spec(spec);
}

}  // namespace headnorm
