// Clusters: what is true of blocks that share parts, whatever the plan.
#pragma once

#include "core/plan.h"

namespace headnorm {

// Blocks of a cluster that every device with clusters takes; more have to be asked for.
inline constexpr int kPortableCluster = 8;

// Whether a thread adds the partials of a reduction within its block by straight code, not in a loop. In a cluster fewer: between
// its barriers an assembler loads all partials of all sums at once.
inline bool adds_in_straight_code(const GpuPlan& shape, const GpuReduction& reduction) {
  return reduction.unrolled() && (shape.cluster == 1 || 2 * reduction.partials <= GpuReduction::kMaxUnrolledPartials);
}

}  // namespace headnorm
