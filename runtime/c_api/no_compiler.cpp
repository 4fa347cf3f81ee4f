#include "runtime/c_api/compiler.h"
#include "runtime/c_api/headnorm_c.h"

std::shared_ptr<headnorm::CodegenBackend> headnorm::c_api::make_compiler() { return nullptr; }

extern "C" int headnorm_has_compiler(void) { return 0; }
