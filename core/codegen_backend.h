// CodegenBackend: compiles plans. Injected into the runtime and the tuner, which never see LLVM: a build without a generator passes
// none, and a kernel that is not stored is then a clear error.
#pragma once

#include <string>

#include "core/artifact.h"

namespace headnorm {

class CodegenBackend {
 public:
  virtual ~CodegenBackend() = default;

  // Name and versions of everything that decides the bytes, e.g. "llvm-22.1.8/program-1/lowering-1".
  virtual std::string identity() const = 0;

  // Compiles for plan.target. May be called from several threads at once. Errors: internal (a defect), environment.
  virtual Result<Artifact> compile(const Plan& plan) = 0;
};

}  // namespace headnorm
