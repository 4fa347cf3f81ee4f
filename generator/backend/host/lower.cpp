#include "generator/backend/host/lower.h"

namespace headnorm::host {

Result<void> lower(const Plan&, const program::Program&, llvm::Module&) { return internal_error("lowering in progress"); }

}  // namespace headnorm::host
