// Rows whose outputs are worked out by hand: each guards against one kind of mistake known from kernels of this family, and every
// implementation of the formula is held to them.
#pragma once

#include <string>
#include <vector>

#include "core/error_bound.h"
#include "core/kernel_spec.h"

namespace headnorm::test {

struct HandCase {
  std::string name;
  KernelSpec spec;
  RowValues inputs;
  std::vector<double> y;  // as stored, to a relative 1e-6; the zeros exactly
};

std::vector<HandCase> hand_cases();

// Whether `stored` is the output of a case: within a relative 1e-6 of `expected`.
bool is_hand_value(double stored, double expected);

}  // namespace headnorm::test
