// Rows of tiles on their way through shared memory: copies of x and residual
// are asked for ahead of their use, and the sweeps read them from there. What
// lies where is said in core/plan.h.
//
// With staging=async every thread copies and reads its own elements alone. With
// staging=bulk the first lane of every part asks the copy engine for the
// block's share of the part, and all threads wait for the barrier of the stage.
#pragma once

#include "generator/backend/nvptx/elements.h"

namespace headnorm::nvptx {

class Stage {
 public:
  Stage(const Plan& plan, llvm::IRBuilder<>& ir, const std::string& name);

  // Before the first copy; all threads of the block are here.
  void open(const Thread& thread);
  // Asks for the rows of the tile that `thread` has entered, into stage
  // `number` (i32), in which nobody reads any more. `memory` knows the same
  // tile.
  void copy(const Thread& thread, const Memory& memory, llvm::Value* number);
  // After each tile asked for, or none: what was asked for since the last time
  // is one tile's.
  void end_copy();
  // Until the tile in stage `number` is there, with `later` tiles asked for
  // after it; `phase` (i32) is 0 for the first tile of a stage, then 1, 0 and
  // so on.
  void wait(llvm::Value* number, llvm::Value* phase, int later);
  // The stage that is read from then on.
  void read_from(const Thread& thread, llvm::Value* number);
  // As Memory::fetch.
  std::vector<llvm::Value*> fetch(Operand operand, const Chunk& chunk, int access_elements);

 private:
  bool is_bulk() const { return plan_.gpu_schedule().staging == Staging::bulk; }
  llvm::Value* barrier_of(llvm::Value* number);
  // The first byte of the thread's part.
  llvm::Value* part_room(Operand operand, const Thread& thread, llvm::Value* number);
  // From there, to the lane's vector of a chunk.
  llvm::Value* lane_bytes(Operand operand, const Thread& thread, const Chunk& chunk);
  void copy_own(const Thread& thread, const Memory& memory, Operand operand, llvm::Value* room, llvm::Value* policy);
  void copy_part(const Thread& thread, Operand operand, llvm::Value* room, llvm::Value* barrier, llvm::Value* policy);
  llvm::Value* part_bytes(const Thread& thread, Operand operand);
  llvm::Value* tail_bytes(const Thread& thread, Operand operand);
  std::int64_t chunk_bytes(Operand operand) const;  // of a block

  const Plan& plan_;
  llvm::IRBuilder<>& ir_;
  llvm::GlobalVariable* memory_;
  llvm::GlobalVariable* barriers_ = nullptr;
  const Thread* reader_ = nullptr;
  std::array<llvm::Value*, kOperandCount> read_room_{};
};

}  // namespace headnorm::nvptx
