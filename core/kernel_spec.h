// KernelSpec: what one kernel computes. A plain value; the maths of docs/variants.md and nothing about how or where it runs.
//
// Symbols: a row has width D, split into H = D/d heads of head size d, and into S seed heads of e = D/S elements.
//   u = x                         (residual none)
//   u = x + residual_scale * residual       (residual add | inplace; u is also written out)
//   inv_rms = 1/sqrt(sum(u^2)/d + eps)      per head
//   gain    = weight_offset + gamma + sigma(seed_scale * <u, beta>) * alpha      (the gate's part with gate seednorm only)
//   y       = u * inv_rms * gain
// Sources: MH-RMSNorm (ECCV 2026), SeeDNorm (arXiv 2510.22777).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/result.h"

namespace headnorm {

enum class Residual : std::uint8_t {
  none,
  add,      // u goes to a tensor of its own, residual_out
  inplace,  // u over residual and y over x
};

enum class WeightForm : std::uint8_t {
  none,     // gamma is 1 for every channel (weight_offset must be 0)
  channel,  // gamma [D]
  shared,   // gamma [d], the same for every head
  head,     // gamma [H], one scalar per head
};

enum class Gate : std::uint8_t { none, seednorm };

enum class Sigma : std::uint8_t { tanh, sigmoid, softsign, hardtanh };

enum class Rounding : std::uint8_t {
  once,   // everything in f32, one rounding at the store of y
  llama,  // u * inv_rms is rounded to the dtype of x before the multiplication by the gain
};

enum class NormInput : std::uint8_t {
  rounded,    // statistic, numerator and seed dot take u as it is stored (rounded to the residual dtype)
  unrounded,  // all three take the f32 sum
};

enum class Mode : std::uint8_t {
  standard,         // text "default": the order of sums is the schedule's, and squares must stay within f32
  batch_invariant,  // spec and target alone fix the order of sums: all schedules give the same bits, at the price of a smaller
                    // search
  safe_range,       // the statistic of scaled values, right where squares leave f32, at the price of a third sweep
};

struct KernelSpec {
  std::int64_t width = 0;      // D >= 1
  std::int64_t head_size = 0;  // d, divides D
  Dtype x_dtype = Dtype::bf16;
  Dtype residual_dtype = Dtype::bf16;  // of residual and residual_out
  Dtype weight_dtype = Dtype::bf16;    // of gamma, alpha and beta
  Dtype y_dtype = Dtype::bf16;
  WeightForm weight = WeightForm::channel;
  double weight_offset = 0.0;
  double eps = 1e-6;  // inside the root, >= 0; used as f32
  Residual residual = Residual::none;
  double residual_scale = 1.0;  // used as f32
  Gate gate = Gate::none;
  std::int64_t seed_heads = 0;  // S; 0 with gate none; one of H and S divides the other
  double seed_scale = 1.0;
  Sigma sigma = Sigma::tanh;
  Rounding rounding = Rounding::once;
  NormInput norm_input = NormInput::rounded;
  Mode mode = Mode::standard;

  std::int64_t heads() const { return width / head_size; }
  bool has_residual() const { return residual != Residual::none; }
  bool has_gamma() const { return weight != WeightForm::none; }
  bool has_gate() const { return gate != Gate::none; }

  friend bool operator==(const KernelSpec&, const KernelSpec&) = default;
};

const char* to_text(Residual value);
const char* to_text(WeightForm value);
const char* to_text(Gate value);
const char* to_text(Sigma value);
const char* to_text(Rounding value);
const char* to_text(NormInput value);
const char* to_text(Mode value);
Result<Residual> parse_residual(std::string_view text);
Result<WeightForm> parse_weight_form(std::string_view text);
Result<Gate> parse_gate(std::string_view text);
Result<Sigma> parse_sigma(std::string_view text);
Result<Rounding> parse_rounding(std::string_view text);
Result<NormInput> parse_norm_input(std::string_view text);
Result<Mode> parse_mode(std::string_view text);

// Checks every rule and returns the canonical value: fields that the other fields make meaningless are set to one fixed value, a
// form of weight that is another one for these heads to that one, and numbers to the shortest that is the same in f32. So two
// spellings of one kernel compare equal and have one text. Errors are user errors.
Result<KernelSpec> make_spec(const KernelSpec& spec);

// Canonical text, e.g. "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06". Fields at their default are left
// out except those; parse_spec(to_text(s)) == s for every s that make_spec returns.
std::string to_text(const KernelSpec& spec);
Result<KernelSpec> parse_spec(std::string_view text);

// The head size that `--head-size auto` stands for: the divisor of `width` that is a multiple of 8 and nearest to 256 in log2
// (the smaller of two equally near). Error: no such divisor; the remedy lists the divisors near 256.
Result<std::int64_t> auto_head_size(std::int64_t width);

// Up to `count` divisors of `width`, those nearest to `wanted` in log2, ascending.
std::vector<std::int64_t> nearest_divisors(std::int64_t width, std::int64_t wanted, int count);

inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
inline constexpr std::int64_t kDefaultHeadSize = 256;

}  // namespace headnorm
