// Makes the blocks and warps of a cluster, once a launch, and fills in what differs from one cluster to the next.
#pragma once

#include "emulator/machine/context.h"

namespace headnorm::emulator {

void make_cluster(const Launch& launch, Cluster& cluster);
void begin_cluster(Launch& launch, Cluster& cluster, std::uint64_t number);  // linear number in the grid

// The place of a thread in its block.
Dim3 thread_index(const Launch& launch, std::uint32_t thread_of_block);

}  // namespace headnorm::emulator
