// Forward of MH-RMSNorm, with the residual add and the SeeDNorm gate fused:
//
//   u       = x (+ residual_scale * residual, rounded to the residual dtype with norm input 'rounded')
//   inv_rms = 1 / sqrt(sum_head(u^2) / d + eps)
//   s       = sigma(seed_scale * sum_seed(u * beta))
//   y       = u * inv_rms * (weight_offset + gamma + s * alpha)
//
// Sources: MH-RMSNorm, ECCV 2026, "Multi-Head Normalization for Wide Vision Transformers"; SeeDNorm, arXiv 2510.22777, whose dot
// product takes the vector before normalisation; the scale of the residual is DeepNorm's, arXiv 2203.00555.
#include "generator/algorithm/forward.h"

#include "generator/algorithm/sigma.h"
#include "generator/program/builder.h"

namespace headnorm::algorithm {

using program::Builder;
using program::Domain;
using program::Value;

namespace {

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

}  // namespace

program::Program build_forward(const KernelSpec& spec) {
  Builder p(spec);
  Value u, sum_sq, dot, inv_rms, s;

  p.sweep([&] {
    u = p.load(Operand::x);
    if (spec.has_residual()) {
      Value residual = p.load(Operand::residual);
      if (spec.residual_scale != 1) residual = residual * spec.residual_scale;
      u = p.named("u", u + residual);
      if (spec.norm_input == NormInput::rounded) u = p.named("u", p.round_to(u, spec.residual_dtype));
    }
    sum_sq = p.named("sum_sq", p.reduce_dot(Domain::head, u, u));
    if (spec.has_gate()) dot = p.named("dot", p.reduce_dot(Domain::seed, u, p.load(Operand::beta)));
  });

  p.scalars([&] {
    const Value per_element = p.constant(1.0 / static_cast<double>(spec.head_size));
    const Value mean_sq = p.named("mean_sq", p.fma(sum_sq, per_element, p.constant(spec.eps)));
    inv_rms = p.named("inv_rms", p.rsqrt(mean_sq));
    if (spec.has_gate()) s = p.named("s", sigma(p, spec.sigma, spec.seed_scale == 1 ? dot : dot * spec.seed_scale));
  });

  p.sweep([&] {
    if (spec.has_residual()) p.store(Operand::residual_out, u);
    Value n = p.named("n", u * inv_rms);
    if (spec.rounding == Rounding::llama) n = p.round_to(n, spec.x_dtype);
    const Value g = gain(p, spec, s);
    p.store(Operand::y, p.named("y", g.exists() ? n * g : n));
  });
  return p.take();
}

}  // namespace headnorm::algorithm
