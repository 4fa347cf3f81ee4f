#include "generator/backend/nvptx/reduce.h"

#include <fmt/format.h>

#include "core/cluster.h"
#include "generator/backend/gpu/plan_terms.h"

namespace headnorm::nvptx {

using gpu::is_over_group;
using gpu::partitions;
using gpu::reduction_of;

namespace {

// Of the thread, among the partitions of a block.
llvm::Value* partition_of(const Plan& plan, const Thread& thread, const Sum& sum) {
  return is_over_group(plan, sum.domain) ? thread.local_group : thread.slot;
}

// Every lane of a run of shuffle_lanes threads gets the same bits: at each step
// both lanes of a pair add the same two numbers.
void shuffle(const Plan& plan, llvm::IRBuilder<>& ir, std::vector<Sum>& sums) {
  for (std::uint32_t distance = 16; distance > 0; distance /= 2) {
    for (Sum& sum : sums) {
      if (static_cast<std::uint32_t>(reduction_of(plan, sum.domain).shuffle_lanes) <= distance) continue;
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

void meet_in_cluster(llvm::IRBuilder<>& ir, llvm::Intrinsic::ID id) { ir.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>{}, {}); }

// The first thread of each run writes the run's sum.
void publish(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const Sum& sum, llvm::Value* memory) {
  const auto run = static_cast<std::uint32_t>(reduction_of(plan, sum.domain).shuffle_lanes);
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

// Number of the thread in its partition.
llvm::Value* place_in_partition(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const Sum& sum) {
  if (!is_over_group(plan, sum.domain)) return thread.lane;
  const auto threads = static_cast<std::uint32_t>(plan.parts_per_group * plan.gpu().lanes);
  return ir.CreateSub(thread.index, ir.CreateMul(thread.local_group, ir.getInt32(threads)));
}

// The first threads of each partition write the block's sum to one block each,
// at the place of this block's rank.
void hand_over(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const Sum& sum, llvm::Value* memory) {
  const auto cluster = static_cast<std::uint32_t>(plan.gpu().cluster);
  llvm::Value* to = place_in_partition(plan, ir, thread, sum);
  llvm::Value* hands = ir.CreateICmpULT(to, ir.getInt32(cluster), "hands_over");
  if (thread.in_slots != nullptr) hands = ir.CreateAnd(hands, thread.in_slots);
  llvm::Function* kernel = ir.GetInsertBlock()->getParent();
  auto* write = llvm::BasicBlock::Create(ir.getContext(), "hand_over_" + sum.name, kernel);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "handed_over_" + sum.name, kernel);
  ir.CreateCondBr(hands, write, after);
  ir.SetInsertPoint(write);
  llvm::Value* index = ir.CreateMul(partition_of(plan, thread, sum), ir.getInt32(cluster));
  index = ir.CreateZExt(ir.CreateAdd(index, thread.rank), ir.getInt64Ty());
  llvm::Value* there = ir.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, llvm::ArrayRef<llvm::Type*>{},
                                          {ir.CreateGEP(ir.getFloatTy(), memory, index), to});
  ir.CreateStore(sum.partial_sum, there);
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
}

llvm::Value* partial_at(llvm::IRBuilder<>& ir, llvm::Value* memory, llvm::Value* index) {
  return ir.CreateLoad(ir.getFloatTy(), ir.CreateGEP(ir.getFloatTy(), memory, index));
}

enum class Collecting { straight, looped };

// Combines `count` partials of the thread's partition, in order.
llvm::Value* collect(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const Sum& reduction, llvm::Value* memory,
                     int count, Collecting form) {
  const std::string& name = reduction.name;
  llvm::Value* first = ir.CreateMul(partition_of(plan, thread, reduction), ir.getInt32(static_cast<std::uint32_t>(count)));
  first = ir.CreateZExt(first, ir.getInt64Ty());
  auto i64 = [&](int value) { return ir.getInt64(static_cast<std::uint64_t>(value)); };
  llvm::Value* total = partial_at(ir, memory, first);
  if (form == Collecting::straight) {
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

// Sums over the runs of threads of a block.
void reduce_block(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const std::vector<Sum*>& sums,
                  const std::vector<llvm::Value*>& regions) {
  // A block that goes on to another tile uses the memory again: no warp may
  // still be adding up the last tile's sums. The loads of this tile are under
  // way by now, so that there is little to wait for.
  if (plan.gpu_schedule().grid == GridForm::persistent) meet_in_block(ir);
  for (std::size_t i = 0; i < sums.size(); ++i) publish(plan, ir, thread, *sums[i], regions[i]);
  meet_in_block(ir);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const GpuReduction& reduction = reduction_of(plan, sums[i]->domain);
    const Collecting form = adds_in_straight_code(plan.gpu(), reduction) ? Collecting::straight : Collecting::looped;
    sums[i]->partial_sum = collect(plan, ir, thread, *sums[i], regions[i], reduction.partials, form);
  }
}

// Sums over the blocks of a cluster.
void reduce_cluster(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, std::vector<Sum>& sums,
                    const std::vector<llvm::Value*>& regions) {
  meet_in_cluster(ir,
                  llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned);  // all are done with
                                                                        // what is there
  for (std::size_t i = 0; i < sums.size(); ++i) hand_over(plan, ir, thread, sums[i], regions[i]);
  meet_in_cluster(ir, llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned);
  meet_in_cluster(ir, llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned);
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i].partial_sum = collect(plan, ir, thread, sums[i], regions[i], plan.gpu().cluster, Collecting::straight);
}

}  // namespace

llvm::Value* combine(llvm::IRBuilder<>& ir, const Sum& sum, llvm::Value* a, llvm::Value* b) {
  if (sum.op == program::Op::reduce_max) return ir.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, a, b, nullptr, sum.name);
  return ir.CreateFAdd(a, b, sum.name);
}

void say_done_with_sums(const Plan& plan, llvm::IRBuilder<>& ir) {
  if (plan.gpu().cluster > 1) meet_in_cluster(ir, llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned);
}

void wait_until_done_with_sums(const Plan& plan, llvm::IRBuilder<>& ir) {
  if (plan.gpu().cluster > 1) meet_in_cluster(ir, llvm::Intrinsic::nvvm_barrier_cluster_wait);
}

void meet_in_block(llvm::IRBuilder<>& ir) {
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, llvm::ArrayRef<llvm::Type*>{}, {ir.getInt32(0)});
}

Result<void> reduce(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const std::string& name, Next next,
                    std::vector<Sum>& sums) {
  shuffle(plan, ir, sums);
  std::vector<Sum*> of_runs;
  std::int64_t floats = 0;
  for (Sum& sum : sums) {
    if (reduction_of(plan, sum.domain).partials > 1) of_runs.push_back(&sum);
  }
  const bool is_over_blocks = plan.gpu().cluster > 1;
  for (const Sum* sum : of_runs) floats += partitions(plan, sum->domain) * reduction_of(plan, sum->domain).partials;
  for (const Sum& sum : sums) floats += is_over_blocks ? partitions(plan, sum.domain) * plan.gpu().cluster : 0;
  if (floats == 0) return {};
  if (floats * 4 > plan.gpu().shared_bytes)
    return internal_error(
        fmt::format("a sweep's {} reductions take {} bytes "
                    "of shared memory, the plan has {}",
                    sums.size(), floats * 4, plan.gpu().shared_bytes));

  llvm::Value* memory = make_shared(ir, name, floats);
  floats = 0;
  const auto region = [&](std::int64_t count) {
    llvm::Value* begin = ir.CreateConstInBoundsGEP1_64(ir.getFloatTy(), memory, static_cast<std::uint64_t>(floats));
    floats += count;
    return begin;
  };
  std::vector<llvm::Value*> run_regions, block_regions;
  for (const Sum* sum : of_runs)
    run_regions.push_back(region(partitions(plan, sum->domain) * reduction_of(plan, sum->domain).partials));
  if (!of_runs.empty()) reduce_block(plan, ir, thread, of_runs, run_regions);
  if (!is_over_blocks) return {};
  for (const Sum& sum : sums) block_regions.push_back(region(partitions(plan, sum.domain) * plan.gpu().cluster));
  reduce_cluster(plan, ir, thread, sums, block_regions);
  if (next == Next::reduction) say_done_with_sums(plan, ir);
  return {};
}

}  // namespace headnorm::nvptx
