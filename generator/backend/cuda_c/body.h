// Renders the body of a kernel: a sweep program on the threads, tiles and chunks of a plan.
#pragma once

#include <string>

#include "core/plan.h"
#include "generator/program/program.h"

namespace headnorm::cuda_c {

// `program` is the one that program::form_of returned. Error (internal): the plan has no room for what the program keeps.
Result<std::string> render_body(const Plan& plan, const program::Program& program);

}  // namespace headnorm::cuda_c
