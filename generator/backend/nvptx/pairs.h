// Operations on two neighbouring elements at a time (f32x2): each half is rounded as by the operation on one. Written as text on
// registers of 64 bits, both halves of which are always written: of vectors of two f32 LLVM leaves halves that nothing reads
// undefined.
#pragma once

#include <vector>

#include "generator/backend/nvptx/elements.h"

namespace headnorm::nvptx {

// Of arguments with an even number of elements each; `op` has a packed form (gpu::is_packed).
Elements compute_pairs(llvm::IRBuilder<>& ir, program::Op op, const std::vector<Elements>& arguments);

}  // namespace headnorm::nvptx
