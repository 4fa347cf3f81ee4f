// PTX text to a Module.
#pragma once

#include <string_view>

#include "emulator/outcome.h"
#include "emulator/ptx/module.h"

namespace headnorm::emulator::ptx {

// Takes what LLVM, NVRTC and nvcc write for kernels that call no functions. Failure: names the line and what is not understood.
Outcome<Module> parse_module(std::string_view text);

}  // namespace headnorm::emulator::ptx
