// What one thread of the kernel works on: its lane of a part, the part's place
// in the tensors, and whether it may store.
//
// Thread t of a block is lane t % lanes of part slot t / lanes; slots go
// through the parts of the tile in order: parts of a group, groups of a row,
// rows. Threads past the last slot or the last row repeat the work of the last
// one, so that every lane takes part in every shuffle and barrier; they only do
// not store.
#pragma once

#include <array>

#include "core/plan.h"
#include "generator/backend/llvm/llvm_headers.h"

namespace headnorm::nvptx {

struct Thread {
  llvm::Value* index = nullptr;        // i32, in the block
  llvm::Value* lane = nullptr;         // i32
  llvm::Value* lane_offset = nullptr;  // i32, elements from the start of a part to the lane's first
                                       // vector: over the cluster's lanes
  llvm::Value* rank = nullptr;         // i32, of the block in its cluster; null without clusters
  llvm::Value* own_slot = nullptr;     // i32, this thread's, also past the last
  llvm::Value* slot = nullptr;         // i32, of the part among the parts of the block
  llvm::Value* local_group = nullptr;  // i32, of the group among the groups of the tile
  llvm::Value* local_row = nullptr;    // i32, of the row among the rows of the tile
  llvm::Value* in_slots = nullptr;     // i1: not a thread past the last slot; null where there are none
  // Of the tile.
  llvm::Value* stores = nullptr;  // i1
  // Address of the first element of the thread's part in each operand; of the
  // head's weight for a gamma per head. And of the lane's first vector in the
  // part: a sum of its own, since an assembler adds an index to a pointer in one
  // instruction, but not an offset to a pointer and an index.
  std::array<llvm::Value*, kOperandCount> part{}, lane_part{};
};

// What holds for every tile: all but `stores`, `part` and `lane_part`; with one
// tile per row also those of the weights.
Thread build_thread(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Function& kernel);

// Of a block, and of all: the tile that it begins with (i32), and how many it
// goes on by.
llvm::Value* first_tile(const Plan& plan, llvm::IRBuilder<>& ir);
llvm::Value* tile_stride(const Plan& plan, llvm::IRBuilder<>& ir);

// The first row of tile `tile` (i32), as an i64.
llvm::Value* first_row(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Value* tile);
// Completes `thread` for a tile.
void enter_tile(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Function& kernel, llvm::Value* tile, Thread& thread);

// LLVM's type of an element in memory.
llvm::Type* element_type(llvm::IRBuilder<>& ir, Dtype dtype);

}  // namespace headnorm::nvptx
