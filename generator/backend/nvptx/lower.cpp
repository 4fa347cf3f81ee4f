#include "generator/backend/nvptx/lower.h"

namespace headnorm::nvptx {

Result<void> lower(const Plan&, const program::Program&, llvm::Module&) { return internal_error("lowering in progress"); }

}  // namespace headnorm::nvptx
