// TileBody: a sweep program for one tile, lowered for one thread of it: loads,
// what is computed, sums over the threads of a part or group, stores.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generator/backend/nvptx/elements.h"
#include "generator/backend/nvptx/kept.h"
#include "generator/backend/nvptx/reduce.h"
#include "generator/backend/nvptx/stage.h"

namespace headnorm::nvptx {

class TileBody {
 public:
  // `program` is of program::form_of; `thread` enters the tile before each part of it is
  // lowered; `stage`: where rows come from, or null.
  TileBody(const Plan& plan, const program::Program& program, llvm::IRBuilder<>& ir, llvm::Function& kernel, const Thread& thread,
           const CachePolicies& policies, Stage* stage);

  // Weights that follow the statistic; all of them where they stay for every
  // tile.
  void preload_weights();
  // `next`: where threads go that are done with the tile.
  Result<void> lower(llvm::BasicBlock* next);

 private:
  bool is_looped() const { return plan_.gpu_schedule().residency != Residency::registers; }
  std::int64_t full_chunks() const { return plan_.part_elements / plan_.gpu().chunk_elements(); }
  std::int64_t batch_chunks() const { return plan_.gpu().unroll; }
  const program::Instruction& at(program::ValueId id) const { return program_.instructions[static_cast<std::size_t>(id)]; }
  bool is_used(program::ValueId id) const;
  Reading reading_of(program::ValueId load) const;
  bool is_first(const program::Step& step) const { return step.begin == 0; }

  Result<void> find_kept();
  Result<void> lower_sweep(const program::Step& step);
  void lower_singles(const program::Step& step);
  void lower_loop(const program::Step& step);
  void lower_chunks(const program::Step& step, std::int64_t first, std::int64_t last);
  // Values of chunks numbered from `slot` on: all loads, then what is computed,
  // then all stores.
  void lower_batch(const program::Step& step, std::span<const Chunk> chunks, std::size_t slot);
  void lower_load(program::ValueId id, const Chunk& chunk, std::size_t slot);
  void lower_element(program::ValueId id, std::size_t slot);
  void accumulate(Sum& sum, const program::Instruction& instruction, const Chunk& chunk, std::size_t slot);
  void lower_stores(const program::Step& step, const Chunk& chunk, std::size_t slot);
  Result<void> finish_sums(const program::Step& step);

  llvm::Value* argument(program::ValueId id, std::size_t slot, std::size_t element) const;
  Elements elements_of(program::ValueId id, std::size_t slot) const;
  llvm::BasicBlock* new_block(const std::string& name) { return llvm::BasicBlock::Create(ir_.getContext(), name, &kernel_); }

  const Plan& plan_;
  const program::Program& program_;
  llvm::IRBuilder<>& ir_;
  llvm::Function& kernel_;
  const Thread& thread_;
  Memory memory_;
  Stage* stage_;
  std::vector<llvm::Value*> single_;                            // by id: values of one per thread
  std::vector<std::map<program::ValueId, Elements>> elements_;  // by chunk (unrolled) or place in the batch: values per
                                                                // element
  std::vector<std::pair<program::ValueId, Sum>> sums_;          // of the sweep being lowered
  // Weights read ahead, by chunk, as they stand in memory.
  std::map<program::ValueId, std::vector<std::vector<llvm::Value*>>> preloaded_;
  std::vector<program::ValueId> kept_ids_;  // residency shared, no staging: values of the first sweep
  std::optional<Kept> kept_;
};

}  // namespace headnorm::nvptx
