#include "generator/backend/nvptx/reduce.h"

#include <fmt/format.h>

namespace headnorm::nvptx {
namespace {

bool over_group(const Plan& plan, const Sum& sum) {
  return (sum.domain == program::Domain::head ? plan.parts_per_head : plan.parts_per_seed) > 1;
}

const GpuReduction& reduction_of(const Plan& plan, const Sum& sum) {
  return over_group(plan, sum) ? plan.gpu().over_group : plan.gpu().over_part;
}

// Partitions in a block, and the partition of the thread among them.
std::int64_t partitions(const Plan& plan, const Sum& sum) {
  return plan.gpu().groups_per_block() * (over_group(plan, sum) ? 1 : plan.parts_per_group);
}
llvm::Value* partition_of(const Plan& plan, const Thread& thread, const Sum& sum) {
  return over_group(plan, sum) ? thread.local_group : thread.slot;
}

// Every lane of a run of shuffle_lanes threads gets the same bits: at each step both lanes of a pair add the same two numbers.
void shuffle(const Plan& plan, llvm::IRBuilder<>& ir, std::vector<Sum>& sums) {
  for (std::uint32_t distance = 16; distance > 0; distance /= 2) {
    for (Sum& sum : sums) {
      if (static_cast<std::uint32_t>(reduction_of(plan, sum).shuffle_lanes) <= distance) continue;
      llvm::Value* other = ir.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_f32, llvm::ArrayRef<llvm::Type*>{},
                                              {ir.getInt32(0xffffffffu), sum.partial_sum, ir.getInt32(distance), ir.getInt32(31)});
      sum.partial_sum = combine(ir, sum, sum.partial_sum, other);
    }
  }
}

llvm::GlobalVariable* make_shared(llvm::IRBuilder<>& ir, const std::string& name, std::int64_t floats) {
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  auto* type = llvm::ArrayType::get(ir.getFloatTy(), static_cast<std::uint64_t>(floats));
  auto* memory = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type),
                                          name, nullptr, llvm::GlobalValue::NotThreadLocal, 3);
  memory->setAlignment(llvm::Align(16));
  return memory;
}

void barrier(llvm::IRBuilder<>& ir) {
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, llvm::ArrayRef<llvm::Type*>{}, {ir.getInt32(0)});
}

// The first thread of each run writes the run's sum.
void publish(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const Sum& sum, llvm::Value* memory) {
  const auto run = static_cast<std::uint32_t>(reduction_of(plan, sum).shuffle_lanes);
  llvm::Value* first = ir.CreateICmpEQ(ir.CreateAnd(thread.index, run - 1), ir.getInt32(0), "first_of_run");
  if (thread.in_slots != nullptr) first = ir.CreateAnd(first, thread.in_slots);
  llvm::Function* kernel = ir.GetInsertBlock()->getParent();
  auto* write = llvm::BasicBlock::Create(ir.getContext(), "publish_" + sum.name, kernel);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "published_" + sum.name, kernel);
  ir.CreateCondBr(first, write, after);
  ir.SetInsertPoint(write);
  llvm::Value* index = ir.CreateZExt(ir.CreateUDiv(thread.index, ir.getInt32(run)), ir.getInt64Ty());
  ir.CreateStore(sum.partial_sum, ir.CreateGEP(ir.getFloatTy(), memory, index));
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
}

llvm::Value* partial_at(llvm::IRBuilder<>& ir, llvm::Value* memory, llvm::Value* index) {
  return ir.CreateLoad(ir.getFloatTy(), ir.CreateGEP(ir.getFloatTy(), memory, index));
}

// Combines the partials from `first` on, in order.
llvm::Value* collect(const Plan& plan, llvm::IRBuilder<>& ir, const Sum& reduction, llvm::Value* memory, llvm::Value* first) {
  const std::string& name = reduction.name;
  const int count = reduction_of(plan, reduction).partials;
  auto i64 = [&](int value) { return ir.getInt64(static_cast<std::uint64_t>(value)); };
  llvm::Value* total = partial_at(ir, memory, first);
  if (reduction_of(plan, reduction).unrolled()) {
    for (int i = 1; i < count; ++i) total = combine(ir, reduction, total, partial_at(ir, memory, ir.CreateAdd(first, i64(i))));
    return total;
  }
  llvm::BasicBlock* before = ir.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(ir.getContext(), "collect_" + name, before->getParent());
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "collected_" + name, before->getParent());
  ir.CreateBr(loop);
  ir.SetInsertPoint(loop);
  llvm::PHINode* i = ir.CreatePHI(ir.getInt64Ty(), 2);
  llvm::PHINode* sum = ir.CreatePHI(ir.getFloatTy(), 2, name);
  llvm::Value* next_sum = combine(ir, reduction, sum, partial_at(ir, memory, ir.CreateAdd(first, i)));
  llvm::Value* next_i = ir.CreateAdd(i, i64(1));
  i->addIncoming(i64(1), before);
  i->addIncoming(next_i, loop);
  sum->addIncoming(total, before);
  sum->addIncoming(next_sum, loop);
  ir.CreateCondBr(ir.CreateICmpULT(next_i, i64(count)), loop, after);
  ir.SetInsertPoint(after);
  return next_sum;
}

}  // namespace

llvm::Value* combine(llvm::IRBuilder<>& ir, const Sum& sum, llvm::Value* a, llvm::Value* b) {
  if (sum.op == program::Op::reduce_max) return ir.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, a, b, nullptr, sum.name);
  return ir.CreateFAdd(a, b, sum.name);
}

Result<void> reduce(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const std::string& name,
                    std::vector<Sum>& sums) {
  shuffle(plan, ir, sums);
  std::vector<Sum*> shared;
  std::int64_t floats = 0;
  for (Sum& sum : sums) {
    if (reduction_of(plan, sum).partials == 1) continue;
    shared.push_back(&sum);
    floats += partitions(plan, sum) * reduction_of(plan, sum).partials;
  }
  if (shared.empty()) return {};
  if (floats * 4 > plan.gpu().shared_bytes)
    return internal_error(fmt::format("a sweep's {} reductions take {} bytes of shared memory, the plan has {}", shared.size(),
                                      floats * 4, plan.gpu().shared_bytes));

  // A block that goes on to another tile uses the memory again: no warp may still be adding up the last tile's sums. The loads of
  // this tile are under way by now, so that there is little to wait for.
  if (plan.gpu_schedule().grid == GridForm::persistent) barrier(ir);
  llvm::Value* memory = make_shared(ir, name, floats);
  std::vector<llvm::Value*> regions;
  floats = 0;
  for (const Sum* sum : shared) {
    regions.push_back(ir.CreateConstInBoundsGEP1_64(ir.getFloatTy(), memory, static_cast<std::uint64_t>(floats)));
    publish(plan, ir, thread, *sum, regions.back());
    floats += partitions(plan, *sum) * reduction_of(plan, *sum).partials;
  }
  barrier(ir);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    Sum& sum = *shared[i];
    const int partials = reduction_of(plan, sum).partials;
    llvm::Value* first = ir.CreateMul(partition_of(plan, thread, sum), ir.getInt32(static_cast<std::uint32_t>(partials)));
    sum.partial_sum = collect(plan, ir, sum, regions[i], ir.CreateZExt(first, ir.getInt64Ty()));
  }
  return {};
}

}  // namespace headnorm::nvptx
