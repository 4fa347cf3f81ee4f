// Loops of the generated code.
#pragma once

#include <functional>

#include "generator/backend/llvm/llvm_headers.h"

namespace headnorm::nvptx {

// A turn is as long as the plan says: an assembler that unrolls further takes
// registers that the plan does not know of.
void keep_rolled(llvm::IRBuilder<>& ir, llvm::BranchInst& branch);

// `body` for the turns (i64) from 0 to `count` - 1: straight code where they
// are few.
void repeat(llvm::IRBuilder<>& ir, std::int64_t count, const std::function<void(llvm::Value* turn)>& body);

// `body` in threads where `condition` (i1) holds.
void when(llvm::IRBuilder<>& ir, llvm::Value* condition, const std::string& name, const std::function<void()>& body);

}  // namespace headnorm::nvptx
