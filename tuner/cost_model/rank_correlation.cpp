#include "tuner/cost_model/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace headnorm {
namespace {

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

int sign(double value) { return (value > 0) - (value < 0); }

}  // namespace

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> ra = ranks(a), rb = ranks(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < ra.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

double kendall(const std::vector<double>& a, const std::vector<double>& b) {
  std::int64_t agree = 0, different_a = 0, different_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int in_a = sign(a[i] - a[j]), in_b = sign(b[i] - b[j]);
      agree += in_a * in_b;
      different_a += in_a != 0;
      different_b += in_b != 0;
    }
  }
  const double pairs = std::sqrt(static_cast<double>(different_a)) * std::sqrt(static_cast<double>(different_b));
  return pairs > 0 ? static_cast<double>(agree) / pairs : 0;
}

}  // namespace headnorm
