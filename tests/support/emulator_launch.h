// Runs the PTX of a plan on the tensors of a launch, on an emulated GPU with all its checks.
#pragma once

#include <string>
#include <vector>

#include "core/artifact.h"
#include "core/codegen_backend.h"
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

// The same of a plan: "" or what went wrong, compiling included. The kernel has the static shared memory of the plan.
std::string run_ptx(CodegenBackend& backend, const Plan& plan, LaunchTensors& tensors, emulator::Order order,
                    std::int64_t grid = 0);

// Whether the outputs of two launches of one spec are the same bytes.
bool same_outputs(LaunchTensors& a, LaunchTensors& b);

// The default schedule, and one of every residency that is legal with a tile of two rows of one group; shared on a persistent grid.
std::vector<Plan> plans_of_all_residencies(const KernelSpec& spec, const Target& target);

// The plan, or the one of its unaligned schedule where the tensors ask for that. "" or what went wrong: compiling, the first fault,
// or what was written besides outputs.
std::string run_serving_plan(CodegenBackend& backend, const Plan& plan, LaunchTensors& tensors);

}  // namespace headnorm::test
