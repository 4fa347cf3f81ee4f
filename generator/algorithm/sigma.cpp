#include "generator/algorithm/sigma.h"

#include <array>

namespace headnorm::algorithm {

using program::Builder;
using program::Value;

namespace {

// tanh(z) = z * P(z^2) / Q(z^2) on |z| <= 9, beyond which tanh is 1 to f32. Coefficients and error from tools/fit_tanh.py: relative
// error at most 3.3e-7 (2.8 ulp) over all of f32, the rounding of the evaluation included.
constexpr double kTanhLimit = 9.0;
constexpr std::array kTanhP = {1.0, 0.133810401, 0.0034956045, 2.06093137e-05, 1.33549118e-08};
constexpr std::array kTanhQ = {1.0, 0.467143565, 0.0258770473, 0.000328566006, 7.77667537e-07};

template <std::size_t N>
Value polynomial(Builder& p, const char* name, Value s, const std::array<double, N>& coefficients) {
  Value value = p.constant(coefficients[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) value = p.named(name, p.fma(value, s, p.constant(coefficients[i])));
  return value;
}

Value tanh(Builder& p, Value z) {
  const Value limited = p.named("z", p.clamp(z, -kTanhLimit, kTanhLimit));
  const Value s = p.named("z_sq", limited * limited);
  return limited * polynomial(p, "numerator", s, kTanhP) / polynomial(p, "denominator", s, kTanhQ);
}

}  // namespace

Value sigma(Builder& p, Sigma form, Value z) {
  switch (form) {
    case Sigma::tanh:
      return tanh(p, z);
    case Sigma::sigmoid:
      return p.fma(tanh(p, z * 0.5), p.constant(0.5), p.constant(0.5));  // 1/(1+exp(-z)) = (1+tanh(z/2))/2
    case Sigma::softsign:
      return z / (p.abs(z) + 1.0);
    case Sigma::hardtanh:
      return p.clamp(z, -1.0, 1.0);
  }
  return z;
}

}  // namespace headnorm::algorithm
