// Runs the PTX of a plan on the tensors of a launch, by PtxMachine.
#pragma once

#include <string>

#include "core/codegen_backend.h"
#include "tests/support/host_runner.h"
#include "tests/support/ptx_machine.h"

namespace headnorm::test {

// All blocks of the launch, or `grid` of a persistent kernel (0: one for each tile). "" or what went wrong: compiling, parsing, or
// the first fault.
std::string run_ptx(CodegenBackend& backend, const Plan& plan, LaunchTensors& tensors, ThreadOrder order, std::int64_t grid = 0);
std::string run_ptx(const PtxMachine& machine, const Plan& plan, LaunchTensors& tensors, ThreadOrder order, std::int64_t grid = 0);

// Whether the outputs of two launches of one spec are the same bytes.
bool same_outputs(LaunchTensors& a, LaunchTensors& b);

}  // namespace headnorm::test
