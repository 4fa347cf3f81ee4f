#include "generator/generator.h"
#include "runtime/c_api/compiler.h"
#include "runtime/c_api/headnorm_c.h"

// One for all runtimes: it keeps target machines.
std::shared_ptr<headnorm::CodegenBackend> headnorm::c_api::make_compiler() {
  static const std::shared_ptr<CodegenBackend> compiler = make_llvm_backend();
  return compiler;
}

extern "C" int headnorm_has_compiler(void) { return 1; }
