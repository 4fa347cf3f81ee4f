// DeviceCompiler: makes of a kernel in portable form (PTX) one for exactly one architecture (a cubin), so that loading it again
// compiles nothing. A device has one where its driver or toolkit can do that (Device::compiler).
#pragma once

#include <string>

#include "core/artifact.h"

namespace headnorm {

struct DeviceCode {
  Artifact artifact;  // its key is device_code_key, its backend names both compilers
  std::string log;    // what the assembler says of registers and spills; perhaps empty
};

// Thread-safe.
class DeviceCompiler {
 public:
  virtual ~DeviceCompiler() = default;

  // Name and version of the tool and the exact architecture that code of a plan for `target` is made for, e.g.
  // "nvjitlink-13.0/sm_90": with the portable kernel, all that decides the bytes.
  virtual std::string identity(const Target& target) const = 0;

  // Errors: environment, with what the tool said.
  virtual Result<DeviceCode> compile(const Artifact& portable, const Target& target) = 0;
};

// The key under which code that a tool made of a portable kernel is stored: of another tool, version or architecture, another key.
std::string device_code_key(const std::string& portable_key, const std::string& compiler_identity);

}  // namespace headnorm
