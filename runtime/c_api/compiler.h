// The compiler of a shared library: libheadnorm has none, libheadnorm_full has LLVM. One of two files defines it.
#pragma once

#include <memory>

#include "core/codegen_backend.h"

namespace headnorm::c_api {

// Null: none.
std::shared_ptr<CodegenBackend> make_compiler();

}  // namespace headnorm::c_api
