// Command: from the arguments of main to an exit code.
#pragma once

#include "cli/environment.h"

namespace headnorm::cli {

int run_command(int argc, const char* const* argv, const Environment& environment);

}  // namespace headnorm::cli
