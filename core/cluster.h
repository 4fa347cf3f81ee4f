// Clusters: what is true of blocks that share parts, whatever the plan.
#pragma once

namespace headnorm {

// Blocks of a cluster that every device with clusters takes; more have to be asked for.
inline constexpr int kPortableCluster = 8;

}  // namespace headnorm
