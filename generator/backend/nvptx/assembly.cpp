#include "generator/backend/nvptx/assembly.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace headnorm::nvptx {
namespace {

constexpr const char* kOrdered = ",~{memory}";

// An instruction that stays where it is: with `kOrdered` in the constraints
// also among loads and stores.
llvm::Value* emit(llvm::IRBuilder<>& ir, llvm::Type* result, const std::string& text, const std::string& constraints,
                  const std::vector<llvm::Value*>& arguments) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* argument : arguments) types.push_back(argument->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  return ir.CreateCall(type, llvm::InlineAsm::get(type, text, constraints, true), arguments);
}

void emit(llvm::IRBuilder<>& ir, const std::string& text, const std::string& constraints, std::vector<llvm::Value*> arguments) {
  emit(ir, ir.getVoidTy(), text, constraints, arguments);
}

// An instruction that depends on its arguments alone: where nothing needs it, or another is the same, it goes.
llvm::Value* calculate(llvm::IRBuilder<>& ir, llvm::Type* result, const std::string& text, const std::string& constraints,
                       const std::vector<llvm::Value*>& arguments) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* argument : arguments) types.push_back(argument->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  llvm::CallInst* call = ir.CreateCall(type, llvm::InlineAsm::get(type, text, constraints, false), arguments);
  call->setDoesNotAccessMemory();
  call->setDoesNotThrow();
  call->addFnAttr(llvm::Attribute::WillReturn);
  return call;
}

llvm::Value* number(llvm::IRBuilder<>& ir, llvm::Value* address) { return ir.CreatePtrToInt(address, ir.getInt64Ty()); }

// The registers that a value of `type` takes in a load or store: their width,
// type name and number.
struct Registers {
  explicit Registers(llvm::Type* type) {
    const auto bytes = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue() / 8);
    bits = bytes == 2 ? 16 : 32;
    count = bytes * 8 / bits;
  }
  std::string vector() const { return count == 1 ? "" : fmt::format(".v{}", count); }
  std::string list(unsigned first) const {
    std::string text;
    for (unsigned i = 0; i < count; ++i) text += fmt::format("{}${}", i == 0 ? "" : ", ", first + i);
    return count == 1 ? text : "{" + text + "}";
  }
  std::string constraints(const char* direction) const {
    std::string text;
    for (unsigned i = 0; i < count; ++i) text += fmt::format("{}{}{}", i == 0 ? "" : ",", direction, bits == 16 ? "h" : "r");
    return text;
  }
  unsigned bits = 0, count = 0;
};

// The elements of a vector in one of its registers: LLVM takes a bit cast of the whole apart by way of undefined registers.
unsigned elements_each(llvm::Type* vector, const Registers& registers) {
  return llvm::cast<llvm::FixedVectorType>(vector)->getNumElements() / registers.count;
}

// Register `i` of a vector.
llvm::Value* take(llvm::IRBuilder<>& ir, llvm::Value* vector, const Registers& registers, unsigned i) {
  const unsigned each = elements_each(vector->getType(), registers);
  if (each == 1) return ir.CreateBitCast(ir.CreateExtractElement(vector, std::uint64_t{i}), ir.getInt32Ty());
  const int first = static_cast<int>(i * each);
  return ir.CreateBitCast(ir.CreateShuffleVector(vector, {first, first + 1}), ir.getInt32Ty());
}

// A vector of `type` from the registers of a load.
llvm::Value* join(llvm::IRBuilder<>& ir, llvm::Value* loaded, const Registers& registers, llvm::Type* type) {
  const unsigned each = elements_each(type, registers);
  auto* element = llvm::cast<llvm::FixedVectorType>(type)->getElementType();
  llvm::Type* part = each == 1 ? element : llvm::FixedVectorType::get(element, each);
  llvm::Value* vector = llvm::PoisonValue::get(type);
  for (unsigned i = 0; i < registers.count; ++i) {
    llvm::Value* values = ir.CreateBitCast(ir.CreateExtractValue(loaded, i), part);
    for (unsigned k = 0; k < each; ++k)
      vector = ir.CreateInsertElement(vector, each == 1 ? values : ir.CreateExtractElement(values, std::uint64_t{k}),
                                      std::uint64_t{i * each + k});
  }
  return vector;
}

}  // namespace

void wait_for_previous_kernel(llvm::IRBuilder<>& ir) { emit(ir, "griddepcontrol.wait;", "~{memory}", {}); }
void let_next_kernel_start(llvm::IRBuilder<>& ir) { emit(ir, "griddepcontrol.launch_dependents;", "~{memory}", {}); }

llvm::Value* make_policy(llvm::IRBuilder<>& ir, Policy policy) {
  const char* name = policy == Policy::evict_first ? "evict_first" : "evict_last";
  return emit(ir, ir.getInt64Ty(), fmt::format("createpolicy.fractional.L2::{}.b64 $0, 1.0;", name), "=l", {});
}

llvm::Value* load_with_policy(llvm::IRBuilder<>& ir, llvm::Type* type, llvm::Value* address, llvm::Value* policy, Access access) {
  const Registers registers(type);
  llvm::Type* word = ir.getIntNTy(registers.bits);
  llvm::Type* result = word;
  if (registers.count > 1) result = llvm::StructType::get(ir.getContext(), std::vector<llvm::Type*>(registers.count, word));
  const bool is_read_only = access == Access::read_only;
  llvm::Value* loaded =
      emit(ir, result,
           fmt::format("ld.global{}.L2::cache_hint{}.b{} {}, [${}], ${};", is_read_only ? ".nc" : ".L1::no_allocate",
                       registers.vector(), registers.bits, registers.list(0), registers.count, registers.count + 1),
           registers.constraints("=") + ",l,l" + (is_read_only ? "" : kOrdered), {number(ir, address), policy});
  return registers.count == 1 ? ir.CreateBitCast(loaded, type) : join(ir, loaded, registers, type);
}

void store_with_policy(llvm::IRBuilder<>& ir, llvm::Value* value, llvm::Value* address, llvm::Value* policy) {
  const Registers registers(value->getType());
  llvm::Type* word = ir.getIntNTy(registers.bits);
  std::vector<llvm::Value*> arguments = {number(ir, address), policy};
  if (registers.count == 1) {
    arguments.push_back(ir.CreateBitCast(value, word));
  } else {
    for (unsigned i = 0; i < registers.count; ++i) arguments.push_back(take(ir, value, registers, i));
  }
  emit(ir, fmt::format("st.global.L2::cache_hint{}.b{} [$0], {}, $1;", registers.vector(), registers.bits, registers.list(2)),
       "l,l," + registers.constraints("") + kOrdered, arguments);
}

void copy_async(llvm::IRBuilder<>& ir, llvm::Value* to, llvm::Value* from, int bytes, llvm::Value* policy) {
  std::vector<llvm::Value*> arguments = {number(ir, to), number(ir, from)};
  if (policy != nullptr) arguments.push_back(policy);
  // Past L1 where the width allows it: nothing is read twice.
  emit(ir,
       fmt::format("cp.async.{}.shared.global{} [$0], [$1], {}{};", bytes == 16 ? "cg" : "ca",
                   policy != nullptr ? ".L2::cache_hint" : "", bytes, policy != nullptr ? ", $2" : ""),
       std::string(policy != nullptr ? "l,l,l" : "l,l") + kOrdered, arguments);
}

void commit_async(llvm::IRBuilder<>& ir) { emit(ir, "cp.async.commit_group;", "~{memory}", {}); }
void wait_async(llvm::IRBuilder<>& ir, int pending) { emit(ir, fmt::format("cp.async.wait_group {};", pending), "~{memory}", {}); }

void copy_bulk(llvm::IRBuilder<>& ir, llvm::Value* to, llvm::Value* from, llvm::Value* bytes, llvm::Value* mbarrier,
               llvm::Value* policy) {
  std::vector<llvm::Value*> arguments = {number(ir, to), number(ir, from), bytes, number(ir, mbarrier)};
  if (policy != nullptr) arguments.push_back(policy);
  emit(ir,
       fmt::format("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx:"
                   ":bytes{} [$0], [$1], $2, [$3]{};",
                   policy != nullptr ? ".L2::cache_hint" : "", policy != nullptr ? ", $4" : ""),
       std::string(policy != nullptr ? "l,l,r,l,l" : "l,l,r,l") + kOrdered, arguments);
}

void init_mbarrier(llvm::IRBuilder<>& ir, llvm::Value* mbarrier, int arrivals) {
  emit(ir, "mbarrier.init.shared::cta.b64 [$0], $1;", std::string("l,r") + kOrdered,
       {number(ir, mbarrier), ir.getInt32(static_cast<std::uint32_t>(arrivals))});
}

void show_mbarriers_to_copies(llvm::IRBuilder<>& ir) { emit(ir, "fence.proxy.async.shared::cta;", "~{memory}", {}); }

void arrive_expecting(llvm::IRBuilder<>& ir, llvm::Value* mbarrier, llvm::Value* bytes) {
  emit(ir, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", std::string("l,r") + kOrdered, {number(ir, mbarrier), bytes});
}

// The hardware lets a thread sleep for a while in each try.
void wait_mbarrier(llvm::IRBuilder<>& ir, llvm::Value* mbarrier, llvm::Value* phase) {
  llvm::Function* kernel = ir.GetInsertBlock()->getParent();
  auto* again = llvm::BasicBlock::Create(ir.getContext(), "wait_for_stage", kernel);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "stage_is_there", kernel);
  llvm::Value* address = number(ir, mbarrier);
  ir.CreateBr(again);
  ir.SetInsertPoint(again);
  llvm::Value* done = emit(ir, ir.getInt32Ty(),
                           "{\n\t.reg .pred %done;\n\tmbarrier.try_wait.parity.shared::cta.b64 "
                           "%done, [$1], $2;\n\tselp.b32 $0, 1, "
                           "0, %done;\n\t}",
                           std::string("=r,l,r") + kOrdered, {address, phase});
  ir.CreateCondBr(ir.CreateICmpNE(done, ir.getInt32(0)), after, again);
  ir.SetInsertPoint(after);
}

llvm::Value* join_pair(llvm::IRBuilder<>& ir, llvm::Value* first, llvm::Value* second) {
  return calculate(ir, ir.getInt64Ty(), "mov.b64 $0, {$1, $2};", "=l,f,f", {first, second});
}

std::array<llvm::Value*, 2> split_pair(llvm::IRBuilder<>& ir, llvm::Value* pair) {
  llvm::Type* halves = llvm::StructType::get(ir.getFloatTy(), ir.getFloatTy());
  llvm::Value* split = calculate(ir, halves, "mov.b64 {$0, $1}, $2;", "=f,=f,l", {pair});
  return {ir.CreateExtractValue(split, 0), ir.CreateExtractValue(split, 1)};
}

llvm::Value* compute_packed(llvm::IRBuilder<>& ir, const std::string& operation, const std::vector<llvm::Value*>& pairs) {
  const bool is_fma = pairs.size() == 3;
  return calculate(ir, ir.getInt64Ty(), fmt::format("{}.rn.f32x2 $0, $1, $2{};", operation, is_fma ? ", $3" : ""),
                   is_fma ? "=l,l,l,l" : "=l,l,l", pairs);
}

}  // namespace headnorm::nvptx
