// The grid of specs and schedules that every GPU target must generate correct PTX for.
#pragma once

#include <vector>

#include "core/plan.h"

namespace headnorm::test {

// Plans with their default schedules: widths and head sizes of all kinds, dtypes, weight forms, residuals and gates.
std::vector<Plan> default_plans(const Target& target);
// Plans whose schedules go to the ends of their fields.
std::vector<Plan> unusual_plans(const Target& target);

}  // namespace headnorm::test
