// Runs the PTX of a plan on the tensors of a launch, on an emulated GPU with all its checks.
#pragma once

#include "core/artifact.h"
#include "core/plan.h"
#include "core/result.h"
#include "emulator/emulator.h"
#include "tests/support/launch_tensors.h"

namespace headnorm::test {

// The smallest emulated device that the target runs on.
emulator::Model emulated_model(const Target& target);

// All blocks of the launch, or `grid` of a persistent kernel (0: one for each tile). Error: what is wrong with the module, or the
// first fault. Outputs go back into the tensors.
Result<emulator::Counters> run_emulated(const Artifact& artifact, const Plan& plan, LaunchTensors& tensors,
                                        const emulator::LaunchOptions& options, std::int64_t grid = 0);

}  // namespace headnorm::test
