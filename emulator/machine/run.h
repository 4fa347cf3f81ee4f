// Runs a launch: blocks after blocks, cluster by cluster, the warps of a cluster in turn until each has ended.
#pragma once

#include "emulator/machine/context.h"

namespace headnorm::emulator {

// Until the end of the grid or the first fault; both are noted in the launch. The launch's shape has been checked.
void run_launch(Launch& launch);

}  // namespace headnorm::emulator
