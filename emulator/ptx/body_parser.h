// The body of a kernel: from its opening brace to the closing one.
#pragma once

#include "emulator/ptx/module.h"
#include "emulator/ptx/token_stream.h"

namespace headnorm::emulator::ptx {

// Fills registers, variables, code and labels. Failures are kept in the token stream.
void parse_body(TokenStream& tokens, Kernel& kernel);

}  // namespace headnorm::emulator::ptx
