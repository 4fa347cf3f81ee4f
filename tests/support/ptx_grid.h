// The grid of specs and schedules that every GPU target must generate correct PTX for.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"

namespace headnorm::test {

// Plans with their default schedules: widths and head sizes of all kinds, dtypes, weight forms, residuals and gates.
std::vector<Plan> default_plans(const Target& target);
// `count` different plans over all fields of schedules, specs of all kinds: the same ones for a target and seed every time.
inline constexpr std::uint32_t kSampleSeed = 20240607;
std::vector<Plan> sampled_plans(const Target& target, std::size_t count, std::uint32_t seed = kSampleSeed);

}  // namespace headnorm::test
