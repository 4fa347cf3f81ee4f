// Which GPU targets this backend can generate code for: LLVM ends the process on an instruction that its target does not have, so
// that everything is refused here before LLVM sees it.
#pragma once

#include "core/target.h"

namespace headnorm::nvptx {

// Error (user): a target that headnorm does not know, or one without an instruction that every kernel uses.
Result<void> check_target(const Target& target);

}  // namespace headnorm::nvptx
