// The comment that opens a generated CUDA C file: what it computes, as a formula, and how it is launched.
#pragma once

#include <string>

#include "core/plan.h"

namespace headnorm::cuda_c {

// Lines of comment, without a newline at the end.
std::string render_description(const Plan& plan);

}  // namespace headnorm::cuda_c
