// Assembler: NVIDIA's ptxas where it is installed, asked how many registers a kernel takes.
#pragma once

#include <optional>
#include <string>

#include "cli/environment.h"
#include "core/target.h"

namespace headnorm::cli {

struct Assembler {
  std::string path;
  std::string version;  // "ptxas 13.0"
};

// The first ptxas of PATH that runs; none: there is none.
std::optional<Assembler> find_assembler(const Environment& environment);

// Registers of a thread of the one kernel in `ptx`. Error (environment): ptxas does not run, or refuses the text.
Result<int> count_registers(const Assembler& assembler, const std::string& ptx, const Target& target);

}  // namespace headnorm::cli
