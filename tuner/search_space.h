// Search space: the different legal plans for a spec and a target that are worth measuring.
#pragma once

#include <vector>

#include "core/plan.h"

namespace headnorm {

// Choices are of two ranks. The primary ones (form, block, chunk, prefetch, store; on a GPU lanes, vector, block, residency, grid,
// staging, cluster) decide how memory is driven and are enumerated in full. The secondary ones (accumulators, rsqrt, unpack, heads;
// on a GPU unroll, weights, shape of the tile, stages, cache) move a plan by a few percent, given the default's heads; crossing
// them with the primary ones would multiply the space by sixty, so they are the refinements of a plan.
struct SearchSpace {
  std::vector<Plan> plans;  // all different; default_schedule first
  int illegal = 0;          // schedules that make_plan refused
  int collapsed = 0;        // schedules that came out as a plan which was there already
};

// Error: `spec` is not legal, or no schedule is.
Result<SearchSpace> build_search_space(const KernelSpec& spec, const Target& target);

// The legal plans that differ from `plan` in secondary choices only, without `plan` itself; all different.
std::vector<Plan> refine(const Plan& plan);

}  // namespace headnorm
