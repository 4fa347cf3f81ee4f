#include "generator/backend/nvptx/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "core/artifact.h"
#include "generator/backend/nvptx/elements.h"
#include "generator/backend/nvptx/kept.h"
#include "generator/backend/nvptx/reduce.h"
#include "generator/backend/nvptx/target_check.h"
#include "generator/backend/nvptx/thread.h"

namespace headnorm::nvptx {

using program::Domain;
using program::Instruction;
using program::is_reduction;
using program::kNoValue;
using program::Op;
using program::Program;
using program::Step;
using program::StepKind;
using program::ValueId;

namespace {

// Values of the first sweep, per element, that later ones use: u.
std::vector<ValueId> kept_of_first_sweep(const Program& program) {
  std::vector<ValueId> kept;
  for (std::size_t sweep = 2; sweep < program.steps.size(); sweep += 2) {
    for (ValueId id : program::kept_values(program, sweep)) {
      if (id < program.steps[0].end && std::find(kept.begin(), kept.end(), id) == kept.end()) kept.push_back(id);
    }
  }
  return kept;
}

// A turn is as long as the plan says: an assembler that unrolls further takes registers that the plan does not know of.
void keep_rolled(llvm::IRBuilder<>& ir, llvm::BranchInst& branch) {
  llvm::LLVMContext& context = ir.getContext();
  llvm::Metadata* disable = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
  llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, disable});
  loop->replaceOperandWith(0, loop);
  branch.setMetadata(llvm::LLVMContext::MD_loop, loop);
}

class Lowering {
 public:
  Lowering(const Plan& plan, const Program& program, llvm::IRBuilder<>& ir, llvm::Function& kernel)
      : plan_(plan),
        program_(program),
        ir_(ir),
        kernel_(kernel),
        thread_(build_thread(plan, ir, kernel)),
        memory_(plan, ir, thread_),
        single_(program.instructions.size()),
        elements_(static_cast<std::size_t>(is_looped() ? 1 : plan.gpu().chunks)) {}

  Result<void> run();

 private:
  bool is_looped() const { return plan_.gpu_schedule().residency != Residency::registers; }
  std::int64_t step_elements() const { return std::int64_t{plan_.gpu().lanes} * plan_.gpu().vector_elements; }
  std::int64_t full_chunks() const { return plan_.part_elements / step_elements(); }
  std::int64_t batch_chunks() const { return plan_.gpu().unroll; }

  const Instruction& at(ValueId id) const { return program_.instructions[static_cast<std::size_t>(id)]; }
  bool is_used(ValueId id) const;
  Chunk chunk_at(llvm::Value* offset, std::int64_t index);

  Result<void> lower_tiles();
  // `next`: where threads go that are done with the tile.
  Result<void> lower_tile(llvm::Value* tile, llvm::BasicBlock* next);
  void preload_weights();
  Result<void> lower_sweep(const Step& step);
  void lower_singles(const Step& step);
  void lower_loop(const Step& step);
  void lower_chunks(const Step& step, std::int64_t first, std::int64_t last);
  // Values of chunks numbered from `slot` on: all loads, then what is computed, then all stores.
  void lower_batch(const Step& step, std::span<const Chunk> chunks, std::size_t slot);
  void lower_element(ValueId id, const Chunk& chunk, std::size_t slot);
  void accumulate(Sum& sum, const Instruction& instruction, const Chunk& chunk, std::size_t slot);
  void lower_stores(const Step& step, const Chunk& chunk, std::size_t slot);
  Result<void> finish_sums(const Step& step);

  llvm::Value* argument(ValueId id, std::size_t slot, std::size_t element) const;
  Elements elements_of(ValueId id, std::size_t slot) const;
  Result<void> find_kept();
  bool is_first(const Step& step) const { return step.begin == 0; }
  llvm::BasicBlock* new_block(const std::string& name) { return llvm::BasicBlock::Create(ir_.getContext(), name, &kernel_); }
  // In a block made earlier, to which control comes last.
  void continue_at(llvm::BasicBlock* block) {
    block->moveAfter(&kernel_.back());
    ir_.SetInsertPoint(block);
  }

  const Plan& plan_;
  const Program& program_;
  llvm::IRBuilder<>& ir_;
  llvm::Function& kernel_;
  Thread thread_;
  Memory memory_;
  std::vector<llvm::Value*> single_;                   // by id: values of one per thread
  std::vector<std::map<ValueId, Elements>> elements_;  // by chunk (unrolled) or place in the batch: values per element
  std::vector<std::pair<ValueId, Sum>> sums_;          // of the sweep being lowered
  std::map<ValueId, std::vector<std::vector<llvm::Value*>>> preloaded_;  // weights read ahead, by chunk, as they stand in memory
  std::vector<ValueId> kept_ids_;                                        // residency shared: values of the first sweep
  std::optional<Kept> kept_;
};

bool Lowering::is_used(ValueId id) const {
  return std::any_of(program_.instructions.begin(), program_.instructions.end(), [&](const Instruction& instruction) {
    return std::find(instruction.arguments.begin(), instruction.arguments.end(), id) != instruction.arguments.end();
  });
}

// Chunk `index` counted from the one at `offset`. Only the part's last chunk can reach past its end.
Chunk Lowering::chunk_at(llvm::Value* offset, std::int64_t index) {
  Chunk chunk{.offset = offset, .more = index * step_elements(), .inside = {}, .first = nullptr, .more_chunks = index};
  if (offset != thread_.lane_offset || index < full_chunks()) return chunk;
  const std::int64_t left = plan_.part_elements - chunk.more;
  for (int begin = 0; begin < plan_.gpu().vector_elements; begin += granule_elements(plan_)) {
    llvm::Value* limit = ir_.getInt64(static_cast<std::uint64_t>(std::max<std::int64_t>(left - begin, 0)));
    chunk.inside.push_back(ir_.CreateICmpULT(offset, limit, "inside"));
  }
  return chunk;
}

llvm::Value* Lowering::argument(ValueId id, std::size_t slot, std::size_t element) const {
  if (id == kNoValue) return nullptr;
  if (at(id).domain != Domain::element) return single_[static_cast<std::size_t>(id)];
  return elements_[slot].at(id).values[element];
}

Elements Lowering::elements_of(ValueId id, std::size_t slot) const {
  if (at(id).domain == Domain::element) return elements_[slot].at(id);
  const auto count = static_cast<std::size_t>(plan_.gpu().vector_elements);
  return {std::vector<llvm::Value*>(count, single_[static_cast<std::size_t>(id)]), {}, Dtype::f32};
}

void Lowering::lower_singles(const Step& step) {
  for (ValueId id = step.begin; id < step.end; ++id) {
    const Instruction& instruction = at(id);
    if (instruction.domain == Domain::element || is_reduction(instruction.op)) continue;
    std::array<llvm::Value*, 3> arguments{};
    for (std::size_t i = 0; i < 3; ++i) arguments[i] = argument(instruction.arguments[i], 0, 0);
    if (instruction.op == Op::load) {
      const auto ahead = preloaded_.find(id);
      llvm::Value* fetched = ahead == preloaded_.end() ? memory_.fetch_of_head(instruction.operand) : ahead->second[0][0];
      single_[static_cast<std::size_t>(id)] = memory_.unpack_of_head(instruction.operand, fetched);
      continue;
    }
    single_[static_cast<std::size_t>(id)] = compute(ir_, instruction, arguments);
  }
}

void Lowering::lower_element(ValueId id, const Chunk& chunk, std::size_t slot) {
  const Instruction& instruction = at(id);
  Elements& result = elements_[slot][id];
  if (instruction.op == Op::load) {
    const auto ahead = preloaded_.find(id);
    result = memory_.unpack(instruction.operand,
                            ahead == preloaded_.end() ? memory_.fetch(instruction.operand, chunk) : ahead->second[slot]);
    return;
  }
  if (instruction.op == Op::round_to) {
    result = round_elements(ir_, elements_of(instruction.arguments[0], slot), instruction.dtype);
    return;
  }
  result = {};
  for (std::size_t element = 0; element < static_cast<std::size_t>(plan_.gpu().vector_elements); ++element) {
    std::array<llvm::Value*, 3> arguments{};
    for (std::size_t i = 0; i < 3; ++i) arguments[i] = argument(instruction.arguments[i], slot, element);
    result.values.push_back(compute(ir_, instruction, arguments));
  }
}

void Lowering::accumulate(Sum& sum, const Instruction& instruction, const Chunk& chunk, std::size_t slot) {
  const int granule = granule_elements(plan_);
  llvm::Value* before = sum.partial_sum;
  for (int i = 0; i < plan_.gpu().vector_elements; ++i) {
    const auto element = static_cast<std::size_t>(i);
    llvm::Value* a = argument(instruction.arguments[0], slot, element);
    if (sum.op == Op::reduce_max) {
      sum.partial_sum = combine(ir_, sum, sum.partial_sum, a);
    } else {
      sum.partial_sum =
          ir_.CreateIntrinsic(llvm::Intrinsic::fma, {ir_.getFloatTy()},
                              {a, argument(instruction.arguments[1], slot, element), sum.partial_sum}, nullptr, sum.name);
    }
    if (chunk.inside.empty() || (i + 1) % granule != 0) continue;
    sum.partial_sum = ir_.CreateSelect(chunk.inside[static_cast<std::size_t>(i / granule)], sum.partial_sum, before, sum.name);
    before = sum.partial_sum;
  }
}

void Lowering::lower_stores(const Step& step, const Chunk& chunk, std::size_t slot) {
  for (int granule = 0; granule < plan_.gpu().vector_elements / granule_elements(plan_); ++granule) {
    llvm::BasicBlock* after = nullptr;
    if (!chunk.inside.empty()) {
      llvm::BasicBlock* inside = new_block("store_inside");
      after = new_block("stored");
      ir_.CreateCondBr(chunk.inside[static_cast<std::size_t>(granule)], inside, after);
      ir_.SetInsertPoint(inside);
    }
    for (ValueId id = step.begin; id < step.end; ++id) {
      if (at(id).op == Op::store) memory_.store(at(id).operand, chunk, granule, elements_of(at(id).arguments[0], slot));
    }
    if (after == nullptr) continue;
    ir_.CreateBr(after);
    ir_.SetInsertPoint(after);
  }
}

void Lowering::lower_batch(const Step& step, std::span<const Chunk> chunks, std::size_t slot) {
  if (elements_.size() < slot + chunks.size()) elements_.resize(slot + chunks.size());
  auto each = [&](auto&& lower) {
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      for (ValueId id = step.begin; id < step.end; ++id) {
        if (at(id).domain == Domain::element) lower(id, chunks[i], slot + i);
      }
    }
  };
  for (std::size_t value = 0; value < kept_ids_.size() && !is_first(step); ++value) {
    for (std::size_t i = 0; i < chunks.size(); ++i) elements_[slot + i][kept_ids_[value]] = kept_->recall(value, chunks[i]);
  }
  each([&](ValueId id, const Chunk& chunk, std::size_t at_slot) {
    if (at(id).op == Op::load) lower_element(id, chunk, at_slot);
  });
  each([&](ValueId id, const Chunk& chunk, std::size_t at_slot) {
    if (at(id).op != Op::load && at(id).op != Op::store) lower_element(id, chunk, at_slot);
  });
  for (std::size_t value = 0; value < kept_ids_.size() && is_first(step); ++value) {
    for (std::size_t i = 0; i < chunks.size(); ++i) kept_->keep(value, chunks[i], elements_[slot + i].at(kept_ids_[value]));
  }
  for (auto& [id, sum] : sums_) {
    for (std::size_t i = 0; i < chunks.size(); ++i) accumulate(sum, at(id), chunks[i], slot + i);
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) lower_stores(step, chunks[i], slot + i);
}

void Lowering::lower_chunks(const Step& step, std::int64_t first, std::int64_t last) {
  const std::int64_t batch = batch_chunks();
  for (std::int64_t begin = first; begin < last; begin += batch) {
    std::vector<Chunk> chunks;
    for (std::int64_t i = begin; i < std::min(last, begin + batch); ++i) chunks.push_back(chunk_at(thread_.lane_offset, i));
    lower_batch(step, chunks, is_looped() ? 0 : static_cast<std::size_t>(begin));
  }
}

// The batches of full chunks.
void Lowering::lower_loop(const Step& step) {
  const std::int64_t batch = batch_chunks(), batches = full_chunks() / batch;
  llvm::BasicBlock* before = ir_.GetInsertBlock();
  llvm::BasicBlock* loop = new_block("loop");
  llvm::BasicBlock* after = new_block("looped");
  ir_.CreateBr(loop);
  ir_.SetInsertPoint(loop);
  llvm::PHINode* round = ir_.CreatePHI(ir_.getInt64Ty(), 2, "round");
  llvm::PHINode* offset = ir_.CreatePHI(ir_.getInt64Ty(), 2, "offset");
  std::vector<llvm::PHINode*> partial_sums;
  for (auto& [id, sum] : sums_) {
    partial_sums.push_back(ir_.CreatePHI(ir_.getFloatTy(), 2, sum.name));
    partial_sums.back()->addIncoming(sum.partial_sum, before);
    sum.partial_sum = partial_sums.back();
  }
  llvm::Value* first = ir_.CreateMul(ir_.CreateTrunc(round, ir_.getInt32Ty()), ir_.getInt32(static_cast<std::uint32_t>(batch)));
  std::vector<Chunk> chunks;
  for (std::int64_t i = 0; i < batch; ++i) {
    chunks.push_back(chunk_at(offset, i));
    chunks.back().first = first;
  }
  lower_batch(step, chunks, 0);

  llvm::Value* next_round = ir_.CreateAdd(round, ir_.getInt64(1));
  llvm::Value* next_offset = ir_.CreateAdd(offset, ir_.getInt64(static_cast<std::uint64_t>(batch * step_elements())));
  round->addIncoming(ir_.getInt64(0), before);
  round->addIncoming(next_round, ir_.GetInsertBlock());
  offset->addIncoming(thread_.lane_offset, before);
  offset->addIncoming(next_offset, ir_.GetInsertBlock());
  for (std::size_t i = 0; i < sums_.size(); ++i) partial_sums[i]->addIncoming(sums_[i].second.partial_sum, ir_.GetInsertBlock());
  llvm::BranchInst* again =
      ir_.CreateCondBr(ir_.CreateICmpULT(next_round, ir_.getInt64(static_cast<std::uint64_t>(batches))), loop, after);
  keep_rolled(ir_, *again);
  ir_.SetInsertPoint(after);
  lower_chunks(step, batches * batch, plan_.gpu().chunks);
}

Result<void> Lowering::finish_sums(const Step& step) {
  std::vector<Sum> sums;
  for (const auto& [id, sum] : sums_) sums.push_back(sum);
  HEADNORM_CHECK(reduce(plan_, ir_, thread_, fmt::format("{}_partials_{}", kernel_.getName().str(), step.begin), sums));
  for (std::size_t i = 0; i < sums.size(); ++i) single_[static_cast<std::size_t>(sums_[i].first)] = sums[i].partial_sum;
  return {};
}

Result<void> Lowering::lower_sweep(const Step& step) {
  lower_singles(step);
  sums_.clear();
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (!is_reduction(at(id).op) || !is_used(id)) continue;
    llvm::Value* zero = llvm::ConstantFP::get(ir_.getFloatTy(), 0.0);
    sums_.push_back({id, Sum{at(id).domain, zero, at(id).name, at(id).op}});
  }
  if (is_looped())
    lower_loop(step);
  else
    lower_chunks(step, 0, plan_.gpu().chunks);
  return finish_sums(step);
}

// Weights that follow the statistic; all of them where they stay for every tile.
void Lowering::preload_weights() {
  for (ValueId id = 0; id < static_cast<ValueId>(program_.instructions.size()); ++id) {
    if (at(id).op != Op::load || is_row_operand(at(id).operand)) continue;
    if (id < program_.steps[0].end && !plan_.gpu().weights_stay) continue;  // read beside u
    if (at(id).domain != Domain::element) {
      preloaded_[id] = {{memory_.fetch_of_head(at(id).operand)}};
      continue;
    }
    for (std::int64_t i = 0; i < plan_.gpu().chunks; ++i)
      preloaded_[id].push_back(memory_.fetch(at(id).operand, chunk_at(thread_.lane_offset, i)));
  }
}

Result<void> Lowering::lower_tile(llvm::Value* tile, llvm::BasicBlock* next) {
  enter_tile(plan_, ir_, kernel_, tile, thread_);
  if (plan_.gpu_schedule().weights == WeightLoad::before && !plan_.gpu().weights_stay) preload_weights();
  for (const Step& step : program_.steps) {
    const bool is_last = &step == &program_.steps.back();
    if (is_last) {  // only now may threads part: no shuffle or barrier of this tile follows
      llvm::BasicBlock* write = new_block("write");
      ir_.CreateCondBr(thread_.stores, write, next);
      ir_.SetInsertPoint(write);
    }
    if (step.kind == StepKind::scalars)
      lower_singles(step);
    else
      HEADNORM_CHECK(lower_sweep(step));
  }
  ir_.CreateBr(next);
  return {};
}

// Every thread of a block goes through the same tiles, so that all meet at its barriers. A block past the last tile does nothing.
Result<void> Lowering::lower_tiles() {
  llvm::Value* const rows = kernel_.getArg(static_cast<unsigned>(pointer_count(plan_.spec) + stride_count(plan_.spec)));
  const auto special = [&](llvm::Intrinsic::ID id, const char* name) {
    return ir_.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>{}, {}, nullptr, name);
  };
  llvm::Value* block = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "block");
  if (plan_.gpu().weights_stay) preload_weights();
  llvm::BasicBlock *before = ir_.GetInsertBlock(), *head = new_block("tiles"), *body = new_block("tile");
  llvm::BasicBlock *next = new_block("next"), *leave = new_block("leave");
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  llvm::PHINode* tile = ir_.CreatePHI(ir_.getInt32Ty(), 2, "tile");
  tile->addIncoming(block, before);
  ir_.CreateCondBr(ir_.CreateICmpULT(first_row(plan_, ir_, tile), rows), body, leave);
  ir_.SetInsertPoint(body);
  HEADNORM_CHECK(lower_tile(tile, next));
  continue_at(next);
  llvm::Value* blocks = special(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, "blocks");
  tile->addIncoming(ir_.CreateAdd(tile, blocks), next);  // at most 2^31 tiles and blocks: within 32 bits
  ir_.CreateBr(head);
  continue_at(leave);
  ir_.CreateRetVoid();
  return {};
}

Dtype kept_dtype(const Instruction& instruction) {
  return instruction.op == Op::load || instruction.op == Op::round_to ? instruction.dtype : Dtype::f32;
}

Result<void> Lowering::find_kept() {
  if (plan_.gpu_schedule().residency != Residency::shared) return {};
  kept_ids_ = kept_of_first_sweep(program_);
  std::vector<Dtype> dtypes;
  for (ValueId id : kept_ids_) dtypes.push_back(kept_dtype(at(id)));
  HEADNORM_TRY(Kept kept, Kept::make(plan_, ir_, thread_, kernel_.getName().str() + "_kept", dtypes));
  kept_ = kept;
  return {};
}

Result<void> Lowering::run() {
  HEADNORM_CHECK(find_kept());
  if (plan_.gpu_schedule().grid == GridForm::persistent) return lower_tiles();
  llvm::Value* block =
      ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, llvm::ArrayRef<llvm::Type*>{}, {}, nullptr, "block");
  llvm::BasicBlock* leave = new_block("leave");
  HEADNORM_CHECK(lower_tile(block, leave));
  continue_at(leave);
  ir_.CreateRetVoid();
  return {};
}

// The program as the residency has it: what a sweep does not find in registers or shared memory it computes again.
Program form_of(const Plan& plan, const Program& program) {
  switch (plan.gpu_schedule().residency) {
    case Residency::registers:
      break;
    case Residency::shared:
      return program::rematerialise(program, kept_of_first_sweep(program));
    case Residency::reload:
      return program::rematerialise(program);
  }
  return program;
}

llvm::Function& create_kernel(const Plan& plan, llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  const std::vector<Parameter> parameters = launch_parameters(plan.spec);
  std::vector<llvm::Type*> types;
  for (const Parameter& parameter : parameters) {
    types.push_back(parameter.kind == ParameterKind::pointer ? static_cast<llvm::Type*>(llvm::PointerType::get(context, 1))
                                                             : llvm::Type::getInt64Ty(context));
  }
  llvm::Function& kernel = *llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false),
                                                   llvm::Function::ExternalLinkage, entry_name(plan), module);
  kernel.setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel.addFnAttr("nvvm.reqntid", fmt::to_string(plan.gpu().block_threads));
  kernel.addFnAttr("nvvm.minctasm", "1");  // without, ptxas spills a few registers for a block more on a multiprocessor
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto index = static_cast<unsigned>(i);
    kernel.getArg(index)->setName(parameters[i].name);
    if (parameters[i].kind != ParameterKind::pointer) continue;
    const llvm::Align align(static_cast<std::uint64_t>(operand_access_bytes(plan, parameters[i].operand)));
    kernel.addParamAttr(index, llvm::Attribute::getWithAlignment(context, align));
    if (is_row_operand(parameters[i].operand)) continue;  // may alias one another
    kernel.addParamAttr(index, llvm::Attribute::NoAlias);
    kernel.addParamAttr(index, llvm::Attribute::ReadOnly);
  }
  return kernel;
}

}  // namespace

Result<void> lower(const Plan& plan, const Program& program, llvm::Module& module) {
  HEADNORM_CHECK(check_target(plan.target));
  const Program form = form_of(plan, program);
  llvm::Function& kernel = create_kernel(plan, module);
  llvm::IRBuilder<> ir(llvm::BasicBlock::Create(module.getContext(), "entry", &kernel));
  return Lowering(plan, form, ir, kernel).run();
}

}  // namespace headnorm::nvptx
