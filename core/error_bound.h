// Error bound: how far the outputs of a kernel may lie from the exact values of its formula, element by element; derived in
// docs/numerics.md. Holds for the rows whose squares and products stay within f32; where they do not, the error is infinite: no
// accuracy is promised there.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/launch_abi.h"
#include "core/plan.h"

namespace headnorm {

// What of a plan decides the error. The errors are relative ones of single operations.
struct Arithmetic {
  std::int64_t head_additions = 0;  // additions that one term of a head's sum goes through, at most
  std::int64_t seed_additions = 0;  // the same for a seed head's sum
  double rsqrt_error = 0;           // of 1/sqrt
  double product_error = 0;         // of the product in a multiplication and addition; 0 where they are fused
  double tanh_error = 0;            // of the sequence for tanh
};
Arithmetic arithmetic_of(const Plan& plan);

// One row of each row operand and each whole weight; empty where the spec has no such operand.
using RowValues = std::array<std::vector<double>, kOperandCount>;

// Largest |value before its rounding to the output dtype - exact value|; infinite or NaN: nothing is promised.
struct RowErrors {
  std::vector<double> y, residual_out;  // [D]; residual_out empty without a residual
  // [D] with rounding llama, else empty: where a tie of the inner cast lies within the error, what y is more for the neighbour on
  // its other side; y is then right within the error of either. 0 where there is no such tie.
  std::vector<double> y_step;
  // [D] likewise: y of the side that y_step leads away from.
  std::vector<double> y_near;
  // What leads from `exact`, which may be on either side, to the other: 0 where there is no tie.
  double step_from(double exact, std::size_t i) const {
    if (y_step.empty()) return 0;
    const double from_near = exact > y_near[i] ? exact - y_near[i] : y_near[i] - exact;
    const double half_step = (y_step[i] < 0 ? -y_step[i] : y_step[i]) / 2;
    return from_near <= half_step ? y_step[i] : -y_step[i];
  }
};
RowErrors bound_errors(const KernelSpec& spec, const Arithmetic& arithmetic, const RowValues& inputs);

// Lowest and highest right value of an output stored as `dtype`: rounding is monotone, so they are the rounded ends of the interval
// exact - error .. exact + error. bf16 values below 2^-126 may also be stored as 0 (native conversions flush them).
struct StoredRange {
  double low, high;
};
StoredRange stored_range(double exact, double error, Dtype dtype);

// Whether `stored` is right: within stored_range; NaN exactly where `exact` is NaN; anything where the error is infinite.
bool is_within_bound(double stored, double exact, double error, Dtype dtype);
// The same for an element of y, whose cast may have another neighbour.
bool is_right_y(double stored, double exact, const RowErrors& errors, std::size_t i, Dtype dtype);

}  // namespace headnorm
