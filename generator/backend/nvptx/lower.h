// Lowers a sweep program to LLVM IR for NVIDIA GPUs: one function of the launch ABI, named entry_name(plan).
#pragma once

#include "core/plan.h"
#include "generator/program/program.h"

namespace llvm {
class Module;
}

namespace headnorm::nvptx {

Result<void> lower(const Plan& plan, const program::Program& program, llvm::Module& module);

}  // namespace headnorm::nvptx
