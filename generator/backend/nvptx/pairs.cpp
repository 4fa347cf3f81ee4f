#include "generator/backend/nvptx/pairs.h"

#include "generator/backend/nvptx/assembly.h"

namespace headnorm::nvptx {

using program::Op;

namespace {

const char* name_of(Op op) { return op == Op::add ? "add" : op == Op::mul ? "mul" : "fma"; }

llvm::Value* pair_of(llvm::IRBuilder<>& ir, const Elements& elements, std::size_t pair) {
  if (!elements.pairs.empty()) return elements.pairs[pair];
  return join_pair(ir, elements.values[2 * pair], elements.values[2 * pair + 1]);
}

}  // namespace

Elements compute_pairs(llvm::IRBuilder<>& ir, Op op, const std::vector<Elements>& arguments) {
  Elements result;
  for (std::size_t pair = 0; pair < arguments[0].values.size() / 2; ++pair) {
    std::vector<llvm::Value*> operands;
    for (const Elements& argument : arguments) operands.push_back(pair_of(ir, argument, pair));
    result.pairs.push_back(compute_packed(ir, name_of(op), operands));
    for (llvm::Value* half : split_pair(ir, result.pairs.back())) result.values.push_back(half);
  }
  return result;
}

}  // namespace headnorm::nvptx
