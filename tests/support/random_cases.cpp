#include "tests/support/random_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace headnorm::test {
namespace {

constexpr std::uint64_t kDefaultSeed = 20240607;

std::int64_t random_head_size(Random& random, std::int64_t max_width) {
  static const std::vector<std::int64_t> kSizes = {1,  2,  3,  4,  5,  7,  8,  15, 16,  17,  24,  31,  32,  33,  40,
                                                   48, 63, 64, 65, 72, 80, 96, 97, 112, 120, 128, 129, 160, 192, 256};
  for (;;) {
    const std::int64_t size = random() % 4 == 0 ? static_cast<std::int64_t>(1 + random() % 300) : pick(random, kSizes);
    if (size <= max_width) return size;
  }
}

std::vector<std::int64_t> nested_counts(std::int64_t heads, std::int64_t width) {
  std::vector<std::int64_t> counts;
  for (std::int64_t count = 1; count <= width; ++count) {
    if (width % count == 0 && (heads % count == 0 || count % heads == 0)) counts.push_back(count);
  }
  return counts;
}

void add_gate(Random& random, KernelSpec& spec) {
  spec.gate = Gate::seednorm;
  spec.sigma = pick<Sigma>(random, {Sigma::tanh, Sigma::tanh, Sigma::sigmoid, Sigma::softsign, Sigma::hardtanh});
  switch (random() % 3) {
    case 0:
      spec.seed_heads = 1;
      break;
    case 1:
      spec.seed_heads = spec.heads();
      break;
    default:
      spec.seed_heads = pick(random, nested_counts(spec.heads(), spec.width));
  }
  if (random() % 2 == 0) spec.seed_scale = pick<double>(random, {0.1, 0.25, -1, 3});
}

double normal(Random& random) { return std::normal_distribution<double>()(random); }

std::vector<double>& values_of(RowValues& values, Operand operand) { return values[static_cast<std::size_t>(operand)]; }

}  // namespace

std::uint64_t test_seed() {
  const char* text = std::getenv("HEADNORM_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kDefaultSeed;
}

KernelSpec random_spec(Random& random, std::int64_t max_width, const std::vector<Dtype>& dtypes) {
  KernelSpec spec;
  spec.head_size = random_head_size(random, max_width);
  const std::int64_t most_heads = max_width / spec.head_size;
  spec.width =
      spec.head_size * static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(std::min<std::int64_t>(most_heads, 12)));
  spec.x_dtype = spec.y_dtype = spec.residual_dtype = spec.weight_dtype = pick(random, dtypes);
  if (random() % 2 == 0) {
    spec.y_dtype = pick(random, dtypes);
    spec.residual_dtype = pick(random, dtypes);
    spec.weight_dtype = pick(random, dtypes);
  }
  spec.weight =
      pick<WeightForm>(random, {WeightForm::channel, WeightForm::channel, WeightForm::none, WeightForm::shared, WeightForm::head});
  if (spec.has_gamma() && random() % 3 == 0) spec.weight_offset = pick<double>(random, {1, 1, -0.5, 0.1});
  spec.eps = pick<double>(random, {1e-6, 1e-6, 1e-5, 1e-3, 1e-12, 0});
  spec.residual = pick<Residual>(random, {Residual::none, Residual::none, Residual::add, Residual::inplace});
  if (spec.residual == Residual::inplace) spec.y_dtype = spec.x_dtype;
  if (random() % 4 == 0) spec.residual_scale = pick<double>(random, {2.0, 0.5, 2.8284, -0.3});
  if (random() % 2 == 0) add_gate(random, spec);
  if (random() % 4 == 0) spec.rounding = Rounding::llama;
  if (random() % 3 == 0) spec.norm_input = NormInput::unrounded;
  spec.mode = pick<Mode>(random, {Mode::standard, Mode::standard, Mode::batch_invariant, Mode::safe_range});
  if (spec.mode == Mode::safe_range && random() % 2 == 0) spec.eps = pick<double>(random, {0, 1e-30, 1e10});
  return *make_spec(spec);
}

namespace {

// Betas of a seed head as large as mode safe-range allows: their magnitudes sum to less than 2^64.
double large_beta(Random& random, const KernelSpec& spec, int exponent) {
  const double seed_size = static_cast<double>(spec.width / spec.seed_heads);
  const double limit = spec.weight_dtype == Dtype::f16 ? 60000 : 0.99 * std::ldexp(1 / seed_size, 64);
  return std::clamp(std::ldexp(normal(random), exponent) / seed_size, -limit, limit);
}

}  // namespace

void fill_random_weights(Random& random, const KernelSpec& spec, RowValues& values) {
  const double centre = spec.weight_offset == 0 ? 1 : 0;
  const double beta_size = 1 / std::sqrt(static_cast<double>(spec.has_gate() ? spec.width / spec.seed_heads : 1));
  const bool is_large = spec.mode == Mode::safe_range && spec.has_gate() && random() % 3 == 0;
  const int exponent = is_large ? pick<int>(random, {14, 40, 63, 66}) : 0;
  for (Operand operand : {Operand::gamma, Operand::alpha, Operand::beta}) {
    if (!has_operand(spec, operand)) continue;
    std::vector<double>& weight = values_of(values, operand);
    weight.clear();
    for (std::int64_t i = 0; i < operand_elements(spec, operand); ++i) {
      const double value = operand == Operand::gamma   ? centre + 0.2 * normal(random)
                           : operand == Operand::alpha ? normal(random)
                           : is_large                  ? large_beta(random, spec, exponent)
                                                       : beta_size * normal(random);
      weight.push_back(round_to_dtype(value, spec.weight_dtype));
    }
  }
}

namespace {

// Magnitudes anywhere within the finite numbers of all dtypes, sums of two included; in some rows very different ones side by side.
void fill_extreme_row(Random& random, const KernelSpec& spec, RowValues& values) {
  const int exponent = pick<int>(random, {-148, -130, -100, -60, 13, 60, 100, 124});
  const bool mixed = random() % 3 == 0;
  for (Operand operand : {Operand::x, Operand::residual}) {
    if (!has_operand(spec, operand)) continue;
    const Dtype dtype = operand_dtype(spec, operand);
    const double largest = dtype == Dtype::f16 ? 0x1p14 : 0x1p124;
    std::vector<double>& row = values_of(values, operand);
    row.clear();
    for (std::int64_t i = 0; i < spec.width; ++i) {
      const double value = std::ldexp(normal(random), mixed && random() % 4 != 0 ? exponent - 40 : exponent);
      row.push_back(round_to_dtype(std::clamp(value, -largest, largest), dtype));
    }
  }
}

}  // namespace

void fill_random_row(Random& random, const KernelSpec& spec, RowValues& values) {
  if (spec.mode == Mode::safe_range && random() % 2 == 0) return fill_extreme_row(random, spec, values);
  enum Kind { kNormal, kOutliers, kTiny, kZeroHeads, kSpread, kTop, kKinds };
  const auto kind = static_cast<Kind>(random() % kKinds);
  const double tiny = std::ldexp(1.0, -static_cast<int>(random() % 20));
  const std::uint64_t zero_heads = random();
  const double top = spec.has_residual() ? 64000 / (1 + std::fabs(spec.residual_scale)) : 65504;  // no sum leaves f16
  for (Operand operand : {Operand::x, Operand::residual}) {
    if (!has_operand(spec, operand)) continue;
    std::vector<double>& row = values_of(values, operand);
    row.clear();
    for (std::int64_t i = 0; i < spec.width; ++i) {
      double value = normal(random);
      if (kind == kOutliers && i % 29 == 3) value *= 100;
      if (kind == kTiny) value *= tiny;
      if (kind == kZeroHeads && (zero_heads >> (i / spec.head_size % 64) & 1) != 0) value = 0;
      if (kind == kSpread) value = std::ldexp(value, static_cast<int>(random() % 24) - 12);
      if (kind == kTop) value = std::copysign(top * (1 - std::ldexp(static_cast<double>(random() % 64), -11)), value);
      row.push_back(round_to_dtype(value, operand_dtype(spec, operand)));
    }
  }
}

}  // namespace headnorm::test
