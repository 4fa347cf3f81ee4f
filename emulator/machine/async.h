// Asynchronous copies: what is checked at a thread's and a block's end, and what a block that cannot go on waits for.
#pragma once

#include "emulator/machine/context.h"

namespace headnorm::emulator {

// Before lanes end: a fault where one leaves copies behind that it has not waited for.
Step check_exit(const Context& context, const Operation& operation, std::uint32_t lanes);

// After all threads have ended: a fault where something is still on its way to or from the blocks' shared memory.
void check_end(Launch& launch, Cluster& cluster);

// About mbarriers that have not completed.
std::string explain_waiting(const Block& block);
Rule rule_of_waiting(const Block& block);

}  // namespace headnorm::emulator
