// Nearby schedules: what to change in a schedule that is not legal so that it becomes so.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/plan.h"

namespace headnorm::cli {

struct NearbySchedule {
  std::vector<std::pair<std::string, std::string>> changes;  // field and new value
  Schedule schedule;                                         // canonical
};

// Legal schedules that differ from `schedule` in one field, or in two where one does not help: for each field the values nearest to
// the one asked for, out of those that the search space of the spec uses and, for counts, small ones. Empty where no schedule of
// the target is near.
std::vector<NearbySchedule> nearby_schedules(const KernelSpec& spec, const Schedule& schedule, const Target& target);

}  // namespace headnorm::cli
