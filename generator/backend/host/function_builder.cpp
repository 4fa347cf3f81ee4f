#include "generator/backend/host/function_builder.h"

#include <numeric>

namespace headnorm::host {

int lanes_of(llvm::Value* value) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return type == nullptr ? 0 : static_cast<int>(type->getNumElements());
}

FunctionBuilder::FunctionBuilder(llvm::Module& module, const std::string& name, const Plan& plan)
    : llvm::IRBuilder<>(module.getContext()), plan_(plan) {
  llvm::Type* pointer = getPtrTy();
  auto* type = llvm::FunctionType::get(getVoidTy(), {pointer, pointer, getInt64Ty(), getInt64Ty()}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  if (plan.target.has_avx512()) {  // else LLVM splits 512-bit vectors on processors that it thinks prefer 256
    function_->addFnAttr("min-legal-vector-width", "512");
    function_->addFnAttr("prefer-vector-width", "512");
  }
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  SetInsertPoint(llvm::BasicBlock::Create(getContext(), "entry", function_));
}

Values FunctionBuilder::loop(const char* name, llvm::Value* begin, llvm::Value* end, std::int64_t step, const Values& initial,
                             const LoopBody& body) {
  llvm::BasicBlock* before = GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(getContext(), name, function_);
  auto* after = llvm::BasicBlock::Create(getContext(), std::string(name) + "_end", function_);
  CreateCondBr(CreateICmpSLT(begin, end), inside, after);

  SetInsertPoint(inside);
  llvm::PHINode* index = CreatePHI(getInt64Ty(), 2, "i");
  std::vector<llvm::PHINode*> phis;
  Values carried;
  for (llvm::Value* value : initial) {
    llvm::PHINode* phi = CreatePHI(value->getType(), 2);
    phi->addIncoming(value, before);
    phis.push_back(phi);
    carried.push_back(phi);
  }
  const Values next = body(index, carried);
  llvm::Value* next_index = CreateAdd(index, i64(step), "", true, true);
  llvm::BasicBlock* last = GetInsertBlock();
  index->addIncoming(begin, before);
  index->addIncoming(next_index, last);
  for (std::size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(next[k], last);
  CreateCondBr(CreateICmpSLT(next_index, end), inside, after);

  SetInsertPoint(after);
  Values results;
  for (std::size_t k = 0; k < phis.size(); ++k) {
    llvm::PHINode* phi = CreatePHI(phis[k]->getType(), 2);
    phi->addIncoming(initial[k], before);
    phi->addIncoming(next[k], last);
    results.push_back(phi);
  }
  return results;
}

void FunctionBuilder::loop(const char* name, llvm::Value* begin, llvm::Value* end, std::int64_t step,
                           const std::function<void(llvm::Value*)>& body) {
  loop(name, begin, end, step, Values{}, [&](llvm::Value* index, const Values&) {
    body(index);
    return Values{};
  });
}

llvm::Value* FunctionBuilder::fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  if (!plan_.target.has_fma()) return CreateFAdd(CreateFMul(a, b), c);
  return CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

llvm::Value* FunctionBuilder::clamp(llvm::Value* a, double low, double high) {
  const int lanes = lanes_of(a);
  llvm::Value* lower = constant(low, lanes);
  llvm::Value* upper = constant(high, lanes);
  llvm::Value* raised = CreateSelect(CreateFCmpOLT(a, lower), lower, a);  // ordered: NaN stays
  return CreateSelect(CreateFCmpOGT(raised, upper), upper, raised);
}

llvm::Value* FunctionBuilder::rsqrt(llvm::Value* a) {
  if (plan_.host_schedule().rsqrt == RsqrtForm::newton) return newton_rsqrt(a);
  return CreateFDiv(constant(1.0, lanes_of(a)), CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a));
}

// e = estimate(a), then e * (1.5 - 0.5 * a * e * e). Zero and infinity have exact estimates, which the step would turn into NaN.
llvm::Value* FunctionBuilder::newton_rsqrt(llvm::Value* a) {
  const int lanes = lanes_of(a);
  if (lanes < 4) {  // the instruction takes at least four lanes
    llvm::Value* four = llvm::ConstantAggregateZero::get(vector_of(getFloatTy(), 4));
    for (int k = 0; k < std::max(lanes, 1); ++k) four = CreateInsertElement(four, lanes == 0 ? a : CreateExtractElement(a, k), k);
    llvm::Value* roots = newton_rsqrt(four);
    if (lanes == 0) return CreateExtractElement(roots, std::uint64_t{0});
    std::vector<int> first(static_cast<std::size_t>(lanes));
    std::iota(first.begin(), first.end(), 0);
    return CreateShuffleVector(roots, first);
  }
  const auto id = lanes == 16  ? llvm::Intrinsic::x86_avx512_rsqrt14_ps_512
                  : lanes == 8 ? llvm::Intrinsic::x86_avx512_rsqrt14_ps_256
                               : llvm::Intrinsic::x86_avx512_rsqrt14_ps_128;
  llvm::Value* all_lanes = lanes == 16 ? static_cast<llvm::Value*>(getInt16(0xffff)) : getInt8(0xff);
  llvm::Value* estimate =
      CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>{}, {a, llvm::ConstantAggregateZero::get(a->getType()), all_lanes});
  llvm::Value* half = CreateFMul(CreateFMul(a, constant(-0.5, lanes)), estimate);
  llvm::Value* refined = CreateFMul(estimate, fma(half, estimate, constant(1.5, lanes)));
  llvm::Value* finite =
      CreateAnd(CreateFCmpOGT(a, constant(0.0, lanes)), CreateFCmpOLT(a, llvm::ConstantFP::getInfinity(f32(lanes))));
  return CreateSelect(finite, refined, estimate);
}

llvm::Value* FunctionBuilder::larger(llvm::Value* a, llvm::Value* b) { return CreateSelect(CreateFCmpOGT(a, b), a, b); }

// 254 less the exponent field, which is limited to that of numbers from 2^-126 to 2^126, is the field of the power.
llvm::Value* FunctionBuilder::inverse_power(llvm::Value* a) {
  const int lanes = lanes_of(a);
  auto* type = lanes == 0 ? getInt32Ty() : static_cast<llvm::Type*>(vector_of(getInt32Ty(), lanes));
  auto number = [&](std::uint64_t value) { return llvm::ConstantInt::get(type, value); };
  llvm::Value* field = CreateAnd(CreateLShr(CreateBitCast(a, type), number(23)), number(0xff));
  field = CreateBinaryIntrinsic(llvm::Intrinsic::umax, field, number(1));
  field = CreateBinaryIntrinsic(llvm::Intrinsic::umin, field, number(253));
  return CreateBitCast(CreateShl(CreateSub(number(254), field), number(23)), a->getType());
}

llvm::Value* FunctionBuilder::reduce_lanes(llvm::Value* vector, const Combine& combine) {
  for (int lanes = lanes_of(vector); lanes > 1; lanes /= 2) {
    std::vector<int> low(static_cast<std::size_t>(lanes / 2)), high(low.size());
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), lanes / 2);
    vector = combine(CreateShuffleVector(vector, low), CreateShuffleVector(vector, high));
  }
  return lanes_of(vector) == 0 ? vector : CreateExtractElement(vector, std::uint64_t{0});
}

}  // namespace headnorm::host
