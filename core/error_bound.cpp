// The model of docs/numerics.md: every f32 operation has relative error kUnit and, where its result underflows, absolute error
// kTiny. Symbols as in kernel_spec.h; error_* is the largest absolute error of the value of that name.
#include "core/error_bound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace headnorm {
namespace {

constexpr double kUnit = 0x1p-24;             // half an ulp of f32, relative
constexpr double kTiny = 0x1p-150;            // half of the smallest f32
constexpr double kSmallestNormal = 0x1p-126;  // of f32 and of bf16
constexpr double kLargest = 0x1.fffffep127;   // of f32
// Of the sequence in generator/algorithm/sigma.cpp, over all of f32; without fused operations it has more roundings.
constexpr double kTanhError = 3.3e-7;
constexpr double kUnfusedTanhError = 4.0e-7;
constexpr double kExactRsqrtError = 2 * kUnit;  // a root and a quotient
constexpr double kNewtonRsqrtError = 4 * kUnit;
constexpr double kGpuRsqrtError = 0x1.13p-23;  // 2^-22.9, as the PTX ISA states for rsqrt.approx.f32
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr double kSeedPeak = 0x1p62;  // of generator/algorithm/forward.cpp

// What mode safe-range scales by: the power of two that brings `value` into [1, 2), within f32.
double inverse_power(double value) { return value == 0 ? 0x1p126 : std::ldexp(1.0, -std::clamp(std::ilogb(value), -126, 126)); }

// Relative error of a sum of terms of which each goes through `additions` roundings.
double sum_error(std::int64_t additions) {
  const double first_order = static_cast<double>(additions) * kUnit;
  return first_order / (1 - first_order);
}

double exact_sigma(Sigma form, double z) {
  switch (form) {
    case Sigma::tanh:
      return std::tanh(z);
    case Sigma::sigmoid:
      return 1 / (1 + std::exp(-z));
    case Sigma::softsign:
      return z / (1 + std::fabs(z));
    case Sigma::hardtanh:
      return std::clamp(z, -1.0, 1.0);
  }
  return z;
}

// Of evaluating sigma itself in f32.
double sigma_rounding(Sigma form, double tanh_error, double z, double s) {
  switch (form) {
    case Sigma::tanh:
      return tanh_error * std::fabs(s) + kTiny;
    case Sigma::sigmoid:  // (1 + tanh(z/2)) / 2
      return 0.5 * tanh_error * std::fabs(std::tanh(z / 2)) + kUnit * s;
    case Sigma::softsign:
      return 2.01 * kUnit * std::fabs(s) + kTiny;
    case Sigma::hardtanh:
      return 0;
  }
  return 0;
}

class RowBound {
 public:
  RowBound(const KernelSpec& spec, const Arithmetic& arithmetic, const RowValues& inputs)
      : spec_(spec), arithmetic_(arithmetic), inputs_(inputs) {}

  RowErrors run() {
    bound_u();
    bound_heads();
    if (spec_.has_gate()) bound_s();
    errors_.y.resize(size(spec_.width));
    if (spec_.rounding == Rounding::llama) {
      errors_.y_step.resize(size(spec_.width));
      errors_.y_near.resize(size(spec_.width));
    }
    for (std::int64_t i = 0; i < spec_.width; ++i) errors_.y[size(i)] = bound_y(i);
    return std::move(errors_);
  }

 private:
  struct Bounded {
    double value, error;
  };

  static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
  double input(Operand operand, std::int64_t i) const { return inputs_[static_cast<std::size_t>(operand)][size(i)]; }

  void bound_u() {
    u_.resize(size(spec_.width));
    if (spec_.has_residual()) errors_.residual_out.resize(size(spec_.width));
    for (std::int64_t i = 0; i < spec_.width; ++i) {
      if (spec_.has_residual())
        bound_sum(i);
      else
        u_[size(i)] = {input(Operand::x, i), 0};
    }
  }

  // The sum is rounded to f32; its rounding to a 16-bit dtype is part of the exact value and repeats bit by bit, but for a flush
  // and, with a scaled residual, where a tie lies within the error.
  void bound_sum(std::int64_t i) {
    const double scale = static_cast<double>(static_cast<float>(spec_.residual_scale));
    const double scaled = scale * input(Operand::residual, i), sum = input(Operand::x, i) + scaled;
    const double product_error = scale == 1 ? 0 : kUnit * std::fabs(scaled) + kTiny;
    const double error = product_error + kUnit * (std::fabs(sum) + product_error);
    const bool is_f32 = spec_.residual_dtype == Dtype::f32;
    errors_.residual_out[size(i)] = is_f32 ? product_error : error;
    if (std::fabs(sum) + error > kLargest) {
      u_[size(i)] = {sum, kInfinity};
      return;
    }
    if (is_f32 || spec_.norm_input == NormInput::unrounded) {
      u_[size(i)] = {sum, error};
      return;
    }
    const double f32_sum = round_to_dtype(sum, Dtype::f32), u = round_to_dtype(f32_sum, spec_.residual_dtype);
    if (std::isinf(u)) {
      u_[size(i)] = {u, kInfinity};
      return;
    }
    const StoredRange range =
        scale == 1 ? stored_range(f32_sum, 0, spec_.residual_dtype) : stored_range(sum, error, spec_.residual_dtype);
    u_[size(i)] = {u, std::max(range.high - u, u - range.low)};
    errors_.residual_out[size(i)] = std::max(error, u_[size(i)].error);
  }

  double peak(std::int64_t begin, std::int64_t end) const {
    double largest = 0;
    for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(u_[size(i)].value));
    return largest;
  }

  // Exact, but for underflow.
  static Bounded scaled(const Bounded& u, double scale) {
    return scale == 1 ? u : Bounded{u.value * scale, u.error * scale + kTiny};
  }

  void bound_heads() {
    const double eps = static_cast<double>(static_cast<float>(spec_.eps));
    v_.resize(size(spec_.width));
    for (std::int64_t h = 0; h < spec_.heads(); ++h) {
      const std::int64_t begin = h * spec_.head_size, end = begin + spec_.head_size;
      double scale = 1;
      if (spec_.mode == Mode::safe_range) scale = inverse_power(std::max(peak(begin, end), std::sqrt(eps)));
      for (std::int64_t i = begin; i < end; ++i) v_[size(i)] = scaled(u_[size(i)], scale);
      inv_rms_.push_back(bound_inv_rms(begin, end, eps * scale * scale, scale == 1 ? 0 : kTiny));
    }
  }

  Bounded bound_inv_rms(std::int64_t begin, std::int64_t end, double eps, double eps_error) const {
    const double d = static_cast<double>(spec_.head_size);
    double sum = 0, error = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const Bounded& v = v_[size(i)];
      sum += v.value * v.value;
      error += (2 * std::fabs(v.value) + v.error) * v.error;
    }
    const double mean = sum / d + eps;
    if (sum + error > kLargest) return {1 / std::sqrt(mean), kInfinity};
    error += (sum_error(arithmetic_.head_additions) + arithmetic_.product_error) * (sum + error) + d * kTiny;
    // 1/d as an f32 constant, then a product and a sum.
    const double mean_error =
        error / d + (kUnit + arithmetic_.product_error) * (sum + error) / d + kUnit * mean + kTiny + eps_error;
    return bound_rsqrt(mean, mean_error, sum + error);
  }

  Bounded bound_rsqrt(double mean, double error, double largest) const {
    const double inv = 1 / std::sqrt(mean);
    if (largest > kLargest || error >= mean) return {inv, kInfinity};
    const double highest = 1 / std::sqrt(mean - error);
    return {inv, highest - inv + arithmetic_.rsqrt_error * highest};
  }

  void bound_s() {
    const std::int64_t seed_size = spec_.width / spec_.seed_heads;
    const double scale = static_cast<double>(static_cast<float>(spec_.seed_scale));
    const bool safe = spec_.mode == Mode::safe_range;
    for (std::int64_t seed = 0; seed < spec_.seed_heads; ++seed) {
      const std::int64_t begin = seed * seed_size, end = begin + seed_size;
      const double down = safe ? inverse_power(std::max(peak(begin, end) / kSeedPeak, 1.0)) : 1;
      double dot = 0, magnitude = 0, error = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const double beta = input(Operand::beta, i);
        const Bounded w = scaled(u_[size(i)], down);
        dot += w.value * beta;
        magnitude += std::fabs(w.value * beta);
        error += std::isinf(w.error) ? kInfinity : w.error * std::fabs(beta);
      }
      if (std::isinf(magnitude) || std::isinf(error)) {
        s_.push_back({exact_sigma(spec_.sigma, scale * dot / down), kInfinity});
        continue;
      }
      error += (sum_error(arithmetic_.seed_additions) + arithmetic_.product_error) * (magnitude + error) +
               static_cast<double>(seed_size) * kTiny;
      const double z = scale * dot;
      double z_error = std::fabs(scale) * error;
      if (scale != 1) z_error += kUnit * (std::fabs(z) + z_error) + kTiny;
      // A z past f32 is limited to it in mode safe-range; every sigma is saturated there.
      const double largest = (magnitude + error) * (safe ? 1.0 : std::max(1.0, std::fabs(scale)));
      const double exact = z / down;
      s_.push_back(largest > kLargest ? Bounded{exact_sigma(spec_.sigma, exact), kInfinity} : bound_sigma(exact, z_error / down));
    }
  }

  // Every sigma is monotone: the ends of the interval of z are the ends of the interval of s.
  Bounded bound_sigma(double z, double error) const {
    const double s = exact_sigma(spec_.sigma, z);
    const double high = exact_sigma(spec_.sigma, z + error), low = exact_sigma(spec_.sigma, z - error);
    const double tanh_error = arithmetic_.tanh_error;
    const double rounding =
        std::max(sigma_rounding(spec_.sigma, tanh_error, z + error, high), sigma_rounding(spec_.sigma, tanh_error, z - error, low));
    return {s, std::max(high - s, s - low) + rounding};
  }

  double gamma(std::int64_t i) const {
    switch (spec_.weight) {
      case WeightForm::none:
        return 1;
      case WeightForm::channel:
        return input(Operand::gamma, i);
      case WeightForm::shared:
        return input(Operand::gamma, i % spec_.head_size);
      case WeightForm::head:
        return input(Operand::gamma, i / spec_.head_size);
    }
    return 1;
  }

  Bounded bound_gain(std::int64_t i) const {
    const double offset = static_cast<double>(static_cast<float>(spec_.weight_offset));
    Bounded gain{offset + gamma(i), 0};
    if (offset != 0) gain.error = kUnit * std::fabs(gain.value);
    if (!spec_.has_gate()) return gain;
    const Bounded& s = s_[size(i * spec_.seed_heads / spec_.width)];
    const double alpha = input(Operand::alpha, i);
    gain.value += s.value * alpha;
    if (std::isinf(s.error)) return {gain.value, kInfinity};
    gain.error += std::fabs(alpha) * (s.error + arithmetic_.product_error * (std::fabs(s.value) + s.error));
    gain.error += kUnit * (std::fabs(gain.value) + gain.error) + kTiny;
    return gain;
  }

  // n, and the value that the inner cast may fall to as well; n itself if there is none.
  struct Cast {
    Bounded n;
    double other;
  };

  // What a number within `error` of `exact` is cast to: one value, or either neighbour of a tie. A wider interval is all an error.
  Cast bound_cast(double exact, double error) const {
    const double n = round_to_dtype(exact, spec_.x_dtype);
    const StoredRange range = stored_range(exact, error, spec_.x_dtype);
    const double other = range.low != n ? range.low : range.high;
    const double middle = round_to_dtype((n + other) / 2, spec_.x_dtype);
    const bool are_neighbours = (range.low == n || range.high == n) && (middle == n || middle == other);
    if (are_neighbours) return {{n, 0}, other};
    return {{n, std::max(range.high - n, n - range.low)}, n};
  }

  Cast bound_n(std::int64_t i) const {
    const Bounded &v = v_[size(i)], &inv = inv_rms_[size(i / spec_.head_size)];
    const double exact = v.value * inv.value;
    if (std::isinf(inv.error)) return {{exact, kInfinity}, exact};
    double error = v.error * (inv.value + inv.error) + std::fabs(v.value) * inv.error;
    error += kUnit * (std::fabs(exact) + error) + kTiny;
    if (spec_.rounding == Rounding::once || std::isinf(error)) return {{exact, error}, exact};
    return bound_cast(exact, error);
  }

  double bound_y(std::int64_t i) {
    const auto [n, other] = bound_n(i);
    const Bounded gain = spec_.has_gamma() || spec_.has_gate() ? bound_gain(i) : Bounded{1, 0};
    if (std::fabs(other - n.value) > 0) {
      errors_.y_step[size(i)] = (other - n.value) * gain.value;
      errors_.y_near[size(i)] = n.value * gain.value;
    }
    if (!spec_.has_gamma() && !spec_.has_gate()) return n.error;
    if (std::isinf(n.error) || std::fabs(gain.value) + gain.error > kLargest) return kInfinity;
    const double largest = std::max(std::fabs(n.value), std::fabs(other));
    const double error = n.error * (std::fabs(gain.value) + gain.error) + largest * gain.error;
    return error + kUnit * (largest * std::fabs(gain.value) + error) + kTiny;
  }

  const KernelSpec& spec_;
  const Arithmetic& arithmetic_;
  const RowValues& inputs_;
  std::vector<Bounded> u_;        // [D]
  std::vector<Bounded> v_;        // [D]; u as the statistic takes it: scaled in mode safe-range
  std::vector<Bounded> inv_rms_;  // [H]
  std::vector<Bounded> s_;        // [S]
  RowErrors errors_;
};

int log2_of(int value) { return std::bit_width(static_cast<unsigned>(value)) - 1; }

// Additions that a term of a sum over `parts` parts goes through: along a lane's chain, up the tree over lanes, along the partials,
// then along the blocks of a cluster.
std::int64_t gpu_additions(const Plan& plan, std::int64_t parts) {
  const GpuPlan& gpu = plan.gpu();
  const GpuReduction& reduction = parts > 1 ? gpu.over_group : gpu.over_part;
  return gpu.chunks * gpu.vector_elements + log2_of(reduction.shuffle_lanes) + reduction.partials +
         (gpu.cluster > 1 ? gpu.cluster : 0);
}

// The same, along a lane's chain, up the trees over accumulators and lanes, along the parts.
std::int64_t host_additions(const Plan& plan, std::int64_t parts) {
  const HostPlan& host = plan.host();
  const std::int64_t vectors = host.lines_per_part * (host.line_elements / host.lanes);
  const std::int64_t chain = (vectors + host.accumulators - 1) / host.accumulators;
  // Two more lines in a chain, or a shorter vector added at the end; a part of a tile may begin and end within a line.
  const int tail = host.tile_parts > 1 ? 2 * (host.line_elements / host.lanes) + 1 : host.tail_elements > 0 ? 3 : 0;
  return chain + log2_of(host.accumulators) + log2_of(host.lanes) + tail + parts;
}

}  // namespace

Arithmetic arithmetic_of(const Plan& plan) {
  if (plan.target.kind == TargetKind::gpu)
    return {gpu_additions(plan, plan.parts_per_head), gpu_additions(plan, plan.parts_per_seed), kGpuRsqrtError, 0, kTanhError};
  Arithmetic arithmetic{host_additions(plan, plan.parts_per_head), host_additions(plan, plan.parts_per_seed), kExactRsqrtError, 0,
                        kTanhError};
  if (plan.host_schedule().rsqrt == RsqrtForm::newton) arithmetic.rsqrt_error = kNewtonRsqrtError;
  if (!plan.target.has_fma()) {
    arithmetic.product_error = kUnit;
    arithmetic.tanh_error = kUnfusedTanhError;
  }
  return arithmetic;
}

RowErrors bound_errors(const KernelSpec& spec, const Arithmetic& arithmetic, const RowValues& inputs) {
  return RowBound(spec, arithmetic, inputs).run();
}

StoredRange stored_range(double exact, double error, Dtype dtype) {
  StoredRange range{round_to_dtype(exact - error, dtype), round_to_dtype(exact + error, dtype)};
  if (dtype != Dtype::bf16) return range;
  if (range.low > 0 && exact - error < kSmallestNormal) range.low = 0;
  if (range.high < 0 && exact + error > -kSmallestNormal) range.high = 0;
  return range;
}

bool is_within_bound(double stored, double exact, double error, Dtype dtype) {
  if (std::isinf(error)) return true;
  if (std::isnan(exact)) return std::isnan(stored);
  const StoredRange range = stored_range(exact, error, dtype);
  return range.low <= stored && stored <= range.high;
}

bool is_right_y(double stored, double exact, const RowErrors& errors, std::size_t i, Dtype dtype) {
  if (is_within_bound(stored, exact, errors.y[i], dtype)) return true;
  const double step = errors.step_from(exact, i);
  return step != 0 && is_within_bound(stored, exact + step, errors.y[i], dtype);
}

}  // namespace headnorm
