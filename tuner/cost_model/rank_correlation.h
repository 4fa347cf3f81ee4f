// Rank correlation: how far two lists of numbers put the same things in the same order. 1: the same order; -1: the reverse.
#pragma once

#include <vector>

namespace headnorm {

// Of lists of equal length; equal numbers share the mean of their ranks. 0 where a list has fewer than two different numbers.
double spearman(const std::vector<double>& a, const std::vector<double>& b);
// Kendall's tau-b, which makes allowance for equal numbers. 0 likewise.
double kendall(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace headnorm
