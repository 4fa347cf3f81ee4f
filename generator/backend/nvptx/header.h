// The comment that opens a generated PTX text: what the kernel computes, how it is launched, and its parameters.
#pragma once

#include <string>

#include "core/plan.h"

namespace headnorm::nvptx {

std::string render_header(const Plan& plan);

}  // namespace headnorm::nvptx
