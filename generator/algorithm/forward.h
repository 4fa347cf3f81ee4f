// The forward kernels of every variant as sweep programs.
#pragma once

#include "generator/program/program.h"

namespace headnorm::algorithm {

// `spec` is canonical (make_spec).
program::Program build_forward(const KernelSpec& spec);

}  // namespace headnorm::algorithm
