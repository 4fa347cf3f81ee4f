// Reference: one row of the forward kernels in double precision, written from the formula of core/kernel_spec.h in plain loops and
// apart from the generator, so that a mistake in either shows as a difference.
#pragma once

#include <vector>

#include "core/error_bound.h"
#include "core/kernel_spec.h"

namespace headnorm::test {

// Outputs before their rounding to the output dtype, which only the roundings that the spec itself asks for have touched.
struct ReferenceRow {
  std::vector<double> y, residual_out;  // [D]; residual_out empty without a residual
};

// `spec` is canonical; `inputs` hold values of the operands' dtypes.
ReferenceRow reference_row(const KernelSpec& spec, const RowValues& inputs);

}  // namespace headnorm::test
