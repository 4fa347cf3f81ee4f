#include "cli/backend_option.h"

#include <fmt/format.h>

#include "cli/suggest.h"
#include "cli/text_option.h"
#include "generator/generator.h"

namespace headnorm::cli {

void BackendOption::declare(CLI::App& command) {
  add_text_option(command, "--backend", backend, "llvm|nvrtc",
                  "what compiles: the built-in LLVM (if not given), or CUDA C by NVIDIA's NVRTC, which has to be installed");
}

Result<std::unique_ptr<CodegenBackend>> make_backend(const BackendOption& option, TargetKind kind, const Environment& environment) {
  if (!option.backend || option.backend == "llvm") return make_llvm_backend();
  if (!option.is_nvrtc())
    return user_error(fmt::format("--backend does not know '{}'", *option.backend),
                      suggestion(*option.backend, {"llvm", "nvrtc"}) + "use llvm or nvrtc");
  if (kind != TargetKind::gpu) return user_error("--backend nvrtc compiles for GPUs alone", "use --backend llvm, or give a GPU");
  return make_nvrtc_backend(environment.nvrtc.value_or(""));
}

}  // namespace headnorm::cli
