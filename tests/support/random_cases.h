// Random specs and data for property tests; the same seed gives the same cases everywhere.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/error_bound.h"
#include "core/kernel_spec.h"

namespace headnorm::test {

using Random = std::mt19937_64;

// HEADNORM_TEST_SEED, or a fixed number. Printed by tests when they fail.
std::uint64_t test_seed();

template <class T>
const T& pick(Random& random, const std::vector<T>& choices) {
  return choices[random() % choices.size()];
}

// A canonical spec with any combination of options, its width at most `max_width`, its dtypes among `dtypes`.
KernelSpec random_spec(Random& random, std::int64_t max_width, const std::vector<Dtype>& dtypes);

// Weights of the spec: gamma around 1 (around 0 with an offset), alpha normal, beta such that the gate is in its curved range;
// in mode safe-range sometimes betas up to the largest that the mode allows.
void fill_random_weights(Random& random, const KernelSpec& spec, RowValues& values);

// A row of x and residual: normal numbers, with outlier channels a hundred times larger, or all tiny, or with heads of zeros, or
// spread over many orders of magnitude, or all near the largest f16; in mode safe-range half of them of any magnitude that floating
// point has.
void fill_random_row(Random& random, const KernelSpec& spec, RowValues& values);

}  // namespace headnorm::test
