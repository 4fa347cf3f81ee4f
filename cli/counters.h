// Counters: one launch of a GPU plan on an emulated device, with random data: what it executes and what it asks of memory.
#pragma once

#include "cli/report.h"
#include "core/codegen_backend.h"
#include "core/plan.h"
#include "emulator/device_model.h"

namespace headnorm::cli {

// The rows that are launched where more are asked for: every row does the same.
inline constexpr std::int64_t kMostCountedRows = 64;

// The smallest device that the target runs on.
emulator::Model smallest_model(const Target& target);

// Keys as documented in docs/cli.md. Errors: the plan is not of a GPU, or the model does not run it (user); the compiler, or a
// fault of the kernel (internal).
Result<Json> count_launch(CodegenBackend& backend, const Plan& plan, std::int64_t rows, emulator::Model model);
std::string counters_text(const Json& counters);

}  // namespace headnorm::cli
