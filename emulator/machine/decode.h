// A parsed kernel to a decoded one: every instruction, modifier and operand is checked here, once.
#pragma once

#include <map>
#include <string>

#include "emulator/machine/kernel.h"
#include "emulator/outcome.h"

namespace headnorm::emulator {

// Where the variables of a module lie: device addresses of global and constant ones.
using Symbols = std::map<std::string, std::uint64_t, std::less<>>;

// Failure: names the line and the instruction, modifier or operand that is not known or does not fit.
Outcome<Kernel> decode_kernel(const ptx::Module& module, const ptx::Kernel& kernel, const Symbols& symbols);

}  // namespace headnorm::emulator
