// Backend option: --backend, which of the compilers of kernels a verb uses.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/environment.h"
#include "core/codegen_backend.h"

namespace CLI {
class App;
}

namespace headnorm::cli {

struct BackendOption {
  std::optional<std::string> backend;

  void declare(CLI::App& command);
  bool is_nvrtc() const { return backend == "nvrtc"; }
};

// LLVM, or NVRTC: HEADNORM_NVRTC names its library. Errors: no such backend, or a host target with NVRTC (user); NVRTC is not there
// (environment).
Result<std::unique_ptr<CodegenBackend>> make_backend(const BackendOption& option, TargetKind kind, const Environment& environment);

}  // namespace headnorm::cli
