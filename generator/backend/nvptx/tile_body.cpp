#include "generator/backend/nvptx/tile_body.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/backend/gpu/plan_terms.h"
#include "generator/backend/nvptx/loops.h"
#include "generator/backend/nvptx/pairs.h"

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

Dtype kept_dtype(const Instruction& instruction) {
  return instruction.op == Op::load || instruction.op == Op::round_to ? instruction.dtype : Dtype::f32;
}

}  // namespace

TileBody::TileBody(const Plan& plan, const Program& program, llvm::IRBuilder<>& ir, llvm::Function& kernel, const Thread& thread,
                   const CachePolicies& policies, Stage* stage)
    : plan_(plan),
      program_(program),
      ir_(ir),
      kernel_(kernel),
      thread_(thread),
      memory_(plan, ir, thread, policies),
      stage_(stage),
      single_(program.instructions.size()),
      elements_(static_cast<std::size_t>(is_looped() ? 1 : plan.gpu().chunks)) {}

bool TileBody::is_used(ValueId id) const {
  return std::any_of(program_.instructions.begin(), program_.instructions.end(), [&](const Instruction& instruction) {
    return std::find(instruction.arguments.begin(), instruction.arguments.end(), id) != instruction.arguments.end();
  });
}

Reading TileBody::reading_of(ValueId load) const {
  for (ValueId id = load + 1; id < static_cast<ValueId>(program_.instructions.size()); ++id) {
    if (at(id).op == Op::load && at(id).operand == at(load).operand) return Reading::again;
  }
  return Reading::last;
}

llvm::Value* TileBody::argument(ValueId id, std::size_t slot, std::size_t element) const {
  if (id == kNoValue) return nullptr;
  if (at(id).domain != Domain::element) return single_[static_cast<std::size_t>(id)];
  return elements_[slot].at(id).values[element];
}

Elements TileBody::elements_of(ValueId id, std::size_t slot) const {
  if (at(id).domain == Domain::element) return elements_[slot].at(id);
  const auto count = static_cast<std::size_t>(plan_.gpu().vector_elements);
  return {std::vector<llvm::Value*>(count, single_[static_cast<std::size_t>(id)]), {}, Dtype::f32, {}};
}

void TileBody::lower_singles(const Step& step) {
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

void TileBody::lower_load(ValueId id, const Chunk& chunk, std::size_t slot) {
  const Operand operand = at(id).operand;
  const auto ahead = preloaded_.find(id);
  std::vector<llvm::Value*> fetched;
  if (ahead != preloaded_.end())
    fetched = ahead->second[slot];
  else if (stage_ != nullptr && is_row_operand(operand))
    fetched = stage_->fetch(operand, chunk, memory_.access_elements(operand));
  else
    fetched = memory_.fetch(operand, chunk, reading_of(id));
  elements_[slot][id] = memory_.unpack(operand, fetched);
}

void TileBody::lower_element(ValueId id, std::size_t slot) {
  const Instruction& instruction = at(id);
  if (instruction.op == Op::round_to) {
    elements_[slot][id] = round_elements(ir_, elements_of(instruction.arguments[0], slot), instruction.dtype);
    return;
  }
  if (gpu::is_packed(plan_, program_, id)) {
    std::vector<Elements> arguments;
    for (int i = 0; i < program::argument_count(instruction.op); ++i)
      arguments.push_back(elements_of(instruction.arguments[static_cast<std::size_t>(i)], slot));
    elements_[slot][id] = compute_pairs(ir_, instruction.op, arguments);
    return;
  }
  Elements result;
  for (std::size_t element = 0; element < static_cast<std::size_t>(plan_.gpu().vector_elements); ++element) {
    std::array<llvm::Value*, 3> arguments{};
    for (std::size_t i = 0; i < 3; ++i) arguments[i] = argument(instruction.arguments[i], slot, element);
    result.values.push_back(compute(ir_, instruction, arguments));
  }
  elements_[slot][id] = result;
}

void TileBody::accumulate(Sum& sum, const Instruction& instruction, const Chunk& chunk, std::size_t slot) {
  const int granule = gpu::granule_elements(plan_);
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

void TileBody::lower_stores(const Step& step, const Chunk& chunk, std::size_t slot) {
  for (int granule = 0; granule < plan_.gpu().vector_elements / gpu::granule_elements(plan_); ++granule) {
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

void TileBody::lower_batch(const Step& step, std::span<const Chunk> chunks, std::size_t slot) {
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
    if (at(id).op == Op::load) lower_load(id, chunk, at_slot);
  });
  each([&](ValueId id, const Chunk&, std::size_t at_slot) {
    if (at(id).op != Op::load && at(id).op != Op::store) lower_element(id, at_slot);
  });
  for (std::size_t value = 0; value < kept_ids_.size() && is_first(step); ++value) {
    for (std::size_t i = 0; i < chunks.size(); ++i) kept_->keep(value, chunks[i], elements_[slot + i].at(kept_ids_[value]));
  }
  for (auto& [id, sum] : sums_) {
    for (std::size_t i = 0; i < chunks.size(); ++i) accumulate(sum, at(id), chunks[i], slot + i);
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) lower_stores(step, chunks[i], slot + i);
}

void TileBody::lower_chunks(const Step& step, std::int64_t first, std::int64_t last) {
  const std::int64_t batch = batch_chunks();
  for (std::int64_t begin = first; begin < last; begin += batch) {
    std::vector<Chunk> chunks;
    for (std::int64_t i = begin; i < std::min(last, begin + batch); ++i) chunks.push_back(chunk_of_lane(plan_, ir_, thread_, i));
    lower_batch(step, chunks, is_looped() ? 0 : static_cast<std::size_t>(begin));
  }
}

// The batches of full chunks.
void TileBody::lower_loop(const Step& step) {
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
  for (std::int64_t i = 0; i < batch; ++i)
    chunks.push_back({.offset = offset, .more = i * plan_.gpu().chunk_elements(), .inside = {}, .first = first, .more_chunks = i});
  lower_batch(step, chunks, 0);

  llvm::Value* next_round = ir_.CreateAdd(round, ir_.getInt64(1));
  llvm::Value* next_offset = ir_.CreateAdd(offset, ir_.getInt64(static_cast<std::uint64_t>(batch * plan_.gpu().chunk_elements())));
  round->addIncoming(ir_.getInt64(0), before);
  round->addIncoming(next_round, ir_.GetInsertBlock());
  offset->addIncoming(ir_.getInt64(0), before);
  offset->addIncoming(next_offset, ir_.GetInsertBlock());
  for (std::size_t i = 0; i < sums_.size(); ++i) partial_sums[i]->addIncoming(sums_[i].second.partial_sum, ir_.GetInsertBlock());
  llvm::BranchInst* again =
      ir_.CreateCondBr(ir_.CreateICmpULT(next_round, ir_.getInt64(static_cast<std::uint64_t>(batches))), loop, after);
  keep_rolled(ir_, *again);
  ir_.SetInsertPoint(after);
  lower_chunks(step, batches * batch, plan_.gpu().chunks);
}

Result<void> TileBody::finish_sums(const Step& step) {
  std::vector<Sum> sums;
  for (const auto& [id, sum] : sums_) sums.push_back(sum);
  bool has_more = plan_.gpu_schedule().grid == GridForm::persistent;
  for (ValueId id = step.end; id < static_cast<ValueId>(program_.instructions.size()); ++id)
    has_more = has_more || (is_reduction(at(id).op) && is_used(id));
  HEADNORM_CHECK(reduce(plan_, ir_, thread_, fmt::format("{}_partials_{}", kernel_.getName().str(), step.begin),
                        has_more ? Next::reduction : Next::nothing, sums));
  for (std::size_t i = 0; i < sums.size(); ++i) single_[static_cast<std::size_t>(sums_[i].first)] = sums[i].partial_sum;
  return {};
}

Result<void> TileBody::lower_sweep(const Step& step) {
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

void TileBody::preload_weights() {
  for (ValueId id = 0; id < static_cast<ValueId>(program_.instructions.size()); ++id) {
    if (at(id).op != Op::load || is_row_operand(at(id).operand)) continue;
    if (id < program_.steps[0].end && !plan_.gpu().weights_stay) continue;  // read beside u
    if (at(id).domain != Domain::element) {
      preloaded_[id] = {{memory_.fetch_of_head(at(id).operand)}};
      continue;
    }
    for (std::int64_t i = 0; i < plan_.gpu().chunks; ++i)
      preloaded_[id].push_back(memory_.fetch(at(id).operand, chunk_of_lane(plan_, ir_, thread_, i), Reading::last));
  }
}

Result<void> TileBody::lower(llvm::BasicBlock* next) {
  HEADNORM_CHECK(find_kept());
  for (const Step& step : program_.steps) {
    const bool is_last = &step == &program_.steps.back();
    if (is_last) {  // only now may threads part: no shuffle or barrier of this
                    // tile follows
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

Result<void> TileBody::find_kept() {
  if (plan_.gpu_schedule().residency != Residency::shared || stage_ != nullptr) return {};
  kept_ids_ = program::values_to_keep(program_, 0);
  std::vector<Dtype> dtypes;
  for (ValueId id : kept_ids_) dtypes.push_back(kept_dtype(at(id)));
  HEADNORM_TRY(Kept kept, Kept::make(plan_, ir_, thread_, kernel_.getName().str() + "_kept", dtypes));
  kept_ = kept;
  return {};
}

}  // namespace headnorm::nvptx
