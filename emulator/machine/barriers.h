// Barriers of a block and of a cluster: who has arrived, and what happens when all have.
#pragma once

#include "emulator/machine/context.h"

namespace headnorm::emulator {

// After threads have ended: completes barriers that waited for nobody else.
void complete_barriers(Launch& launch, Cluster& cluster, Block& block);

}  // namespace headnorm::emulator
