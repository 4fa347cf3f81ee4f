// Renders a plan as a CUDA C file: one kernel of the launch ABI, named entry_name(plan), with a host function that launches it and
// a self-test. It needs no header of ours, and for NVRTC none at all.
#pragma once

#include <string>

#include "core/plan.h"
#include "generator/program/program.h"

namespace headnorm::cuda_c {

// Errors: a target that is no GPU (user); a defect (internal).
Result<std::string> render_source(const Plan& plan, const program::Program& program);

}  // namespace headnorm::cuda_c
