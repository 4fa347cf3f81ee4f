// Evaluates a sweep program in double precision: what the program means, apart from any backend.
//
// Only the program's explicit round_to are rounded; stores are not. This is what tests compare the reference in tests/ against, and
// what the tuner verifies candidates with.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "generator/program/program.h"

namespace headnorm::program {

// One row of each row operand and each whole weight, in double; empty where the spec has no such operand.
using RowInputs = std::array<std::vector<double>, kOperandCount>;

struct RowOutputs {
  std::vector<double> y, residual_out;  // [D]; residual_out empty without a residual
};

// `program` has passed verify; every operand of the spec has its operand_elements in `inputs`.
RowOutputs evaluate(const Program& program, const RowInputs& inputs);

}  // namespace headnorm::program
