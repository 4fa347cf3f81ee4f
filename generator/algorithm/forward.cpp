// Forward of MH-RMSNorm, with the residual add and the SeeDNorm gate fused:
//
//   u       = x (+ residual_scale * residual, rounded to the residual dtype with norm input 'rounded')
//   inv_rms = 1 / sqrt(sum_head(u^2) / d + eps)
//   s       = sigma(seed_scale * sum_seed(u * beta))
//   y       = u * inv_rms * (weight_offset + gamma + s * alpha)
//
// Mode safe-range takes sums of scaled values, so that no square leaves f32, and a sweep before them to find the scales, which are
// powers of two:
//
//   scale    = 2^k that brings max_head(|u|), or sqrt(eps) if that is larger, into [1, 2)
//   down     = 2^k that brings max_seed(|u|) below 2^63; at most 1
//   v        = u * scale
//   inv_rms  = 1 / sqrt(sum_head(v^2) / d + eps * scale^2)
//   s        = sigma(seed_scale * sum_seed(u * down * beta) / down)
//   y        = v * inv_rms * (weight_offset + gamma + s * alpha)
//
// Sources: MH-RMSNorm, ECCV 2026, "Multi-Head Normalization for Wide Vision Transformers"; SeeDNorm, arXiv 2510.22777, whose dot
// product takes the vector before normalisation; the scale of the residual is DeepNorm's, arXiv 2203.00555.
#include "generator/algorithm/forward.h"

#include <cmath>

#include "generator/algorithm/sigma.h"
#include "generator/program/builder.h"

namespace headnorm::algorithm {

using program::Builder;
using program::Domain;
using program::Value;

namespace {

constexpr double kLargest = 0x1.fffffep127;  // of f32
constexpr double kSeedPeak = 0x1p62;  // leaves beta half of the range of f32, and small elements next to large ones the other

// weight_offset + gamma + s * alpha, or nothing where the gain is 1.
Value gain(Builder& p, const KernelSpec& spec, Value s) {
  Value g;
  if (spec.has_gamma()) {
    g = p.load(Operand::gamma);
    if (spec.weight_offset != 0) g = p.named("offset_gamma", g + spec.weight_offset);
  } else if (spec.has_gate()) {
    g = p.constant(1.0);
  }
  if (spec.has_gate()) g = p.named("gain", p.fma(s, p.load(Operand::alpha), g));
  return g;
}

// The vector that is normalised.
Value normalised_input(Builder& p, const KernelSpec& spec) {
  const Value x = p.load(Operand::x);
  if (!spec.has_residual()) return x;
  Value residual = p.load(Operand::residual);
  if (spec.residual_scale != 1) residual = residual * spec.residual_scale;
  const Value u = p.named("u", x + residual);
  return spec.norm_input == NormInput::rounded ? p.named("u", p.round_to(u, spec.residual_dtype)) : u;
}

// Powers of two by which the sums take u; absent: as it is.
struct Scales {
  Value head, seed;
};

// A sweep for the largest |u|, and the scales that follow.
Scales find_scales(Builder& p, const KernelSpec& spec, Value& u) {
  Value peak, seed_peak;
  p.sweep([&] {
    u = normalised_input(p, spec);
    const Value size = p.abs(u);
    peak = p.named("peak", p.reduce_max(Domain::head, size));
    if (spec.has_gate()) seed_peak = p.named("seed_peak", p.reduce_max(Domain::seed, size));
  });
  Scales scales;
  p.scalars([&] {
    scales.head = p.named("scale", p.inverse_power(p.clamp(peak, std::sqrt(spec.eps), kLargest)));
    if (spec.has_gate()) scales.seed = p.named("down", p.inverse_power(p.clamp(seed_peak * (1 / kSeedPeak), 1.0, kLargest)));
  });
  return scales;
}

Value scaled(Value value, Value scale) { return scale.exists() ? value * scale : value; }

// sigma's argument. Past f32 it is infinite, which the quotient of softsign would turn into NaN.
Value seed(Builder& p, const KernelSpec& spec, Value dot, Value scale) {
  const Value z = spec.seed_scale == 1 ? dot : dot * spec.seed_scale;
  return scale.exists() ? p.clamp(z * (1.0 / scale), -kLargest, kLargest) : z;
}

}  // namespace

program::Program build_forward(const KernelSpec& spec) {
  Builder p(spec);
  Value u, v, sum_sq, dot, inv_rms, s;
  Scales scales;
  if (spec.mode == Mode::safe_range) scales = find_scales(p, spec, u);

  p.sweep([&] {
    if (!u.exists()) u = normalised_input(p, spec);
    v = scaled(u, scales.head);
    sum_sq = p.named("sum_sq", p.reduce_dot(Domain::head, v, v));
    if (spec.has_gate()) {
      const Value w = scaled(u, scales.seed);
      dot = p.named("dot", p.reduce_dot(Domain::seed, w, p.load(Operand::beta)));
    }
  });

  p.scalars([&] {
    const Value per_element = p.constant(1.0 / static_cast<double>(spec.head_size));
    const Value eps = scaled(scaled(p.constant(spec.eps), scales.head), scales.head);
    const Value mean_sq = p.named("mean_sq", p.fma(sum_sq, per_element, eps));
    inv_rms = p.named("inv_rms", p.rsqrt(mean_sq));
    if (spec.has_gate()) s = p.named("s", sigma(p, spec.sigma, seed(p, spec, dot, scales.seed)));
  });

  p.sweep([&] {
    if (spec.has_residual()) p.store(Operand::residual_out, u);
    Value n = p.named("n", v * inv_rms);
    if (spec.rounding == Rounding::llama) n = p.round_to(n, spec.x_dtype);
    const Value g = gain(p, spec, s);
    p.store(Operand::y, p.named("y", g.exists() ? n * g : n));
  });
  return p.take();
}

}  // namespace headnorm::algorithm
