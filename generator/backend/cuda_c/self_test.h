// The self-test of a generated CUDA C file: templates/self_test.cu with the values of a plan.
#pragma once

#include <string>

#include "core/plan.h"

namespace headnorm::cuda_c {

Result<std::string> render_self_test(const Plan& plan);

}  // namespace headnorm::cuda_c
