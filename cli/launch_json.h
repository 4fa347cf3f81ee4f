// Launch description: how a program of its own loads and launches a kernel that `generate -o` wrote.
#pragma once

#include "cli/report.h"
#include "core/plan.h"

namespace headnorm::cli {

// Everything but the keys of the file itself: entry, parameters in order, grid, block, shared bytes, alignment, canonical texts.
Json launch_json(const Plan& plan);

}  // namespace headnorm::cli
