// One warp's turn, and what is said when no warp can go on.
#pragma once

#include "emulator/machine/context.h"

namespace headnorm::emulator {

struct WarpTurn {
  std::uint64_t instructions = 0;
  bool is_polling = false;  // ended because all its lanes asked for something that is not there yet
};

// Until its lanes wait, ask in vain or end, or after `most` instructions. A fault is noted in the launch.
WarpTurn run_warp(Launch& launch, Cluster& cluster, Warp& warp, std::uint64_t most);

// Notes the fault of a cluster in which nobody can go on, or nobody gets on.
void report_stuck(Launch& launch, Cluster& cluster);
void report_endless(Launch& launch, Cluster& cluster);

}  // namespace headnorm::emulator
