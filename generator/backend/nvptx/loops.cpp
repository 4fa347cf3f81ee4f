#include "generator/backend/nvptx/loops.h"

#include <string>

namespace headnorm::nvptx {
namespace {

constexpr std::int64_t kMostStraight = 4;

}  // namespace

void keep_rolled(llvm::IRBuilder<>& ir, llvm::BranchInst& branch) {
  llvm::LLVMContext& context = ir.getContext();
  llvm::Metadata* disable = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
  llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, disable});
  loop->replaceOperandWith(0, loop);
  branch.setMetadata(llvm::LLVMContext::MD_loop, loop);
}

void repeat(llvm::IRBuilder<>& ir, std::int64_t count, const std::function<void(llvm::Value* turn)>& body) {
  const auto number = [&](std::int64_t value) { return ir.getInt64(static_cast<std::uint64_t>(value)); };
  if (count <= kMostStraight) {
    for (std::int64_t turn = 0; turn < count; ++turn) body(number(turn));
    return;
  }
  llvm::BasicBlock* before = ir.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(ir.getContext(), "repeat", before->getParent());
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "repeated", before->getParent());
  ir.CreateBr(loop);
  ir.SetInsertPoint(loop);
  llvm::PHINode* turn = ir.CreatePHI(ir.getInt64Ty(), 2, "turn");
  body(turn);
  llvm::Value* next = ir.CreateAdd(turn, number(1));
  turn->addIncoming(number(0), before);
  turn->addIncoming(next, ir.GetInsertBlock());
  keep_rolled(ir, *ir.CreateCondBr(ir.CreateICmpULT(next, number(count)), loop, after));
  ir.SetInsertPoint(after);
}

void when(llvm::IRBuilder<>& ir, llvm::Value* condition, const std::string& name, const std::function<void()>& body) {
  llvm::Function* kernel = ir.GetInsertBlock()->getParent();
  auto* then = llvm::BasicBlock::Create(ir.getContext(), name, kernel);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "after_" + name, kernel);
  ir.CreateCondBr(condition, then, after);
  ir.SetInsertPoint(then);
  body();
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
}

}  // namespace headnorm::nvptx
