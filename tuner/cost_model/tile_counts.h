// Tile counts: what one tile of a GPU plan moves and executes, counted from the plan alone, without a compiler. Tests hold the
// counts to those of the emulator (docs/cost-model.md).
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace headnorm {

// Issued by one warp, of the instructions that PTX has for them.
struct WarpInstructions {
  double arithmetic = 0;  // f32
  double conversion = 0;  // between f32 and what stands in memory
  double memory = 0;      // global memory and parameters
  double shared = 0;
  double shuffle = 0;
  double barrier = 0;
  double address = 0;  // integers, moves, comparisons and branches
  double pairing = 0;  // joining two f32 to a pair and taking it apart: PTX has a move for it, a processor needs none
  // What a processor issues.
  double total() const { return arithmetic + conversion + memory + shared + shuffle + barrier + address; }
};

// Sectors of 32 bytes that the accesses of the warps of all blocks of a cluster touch, each access for itself.
struct Sectors {
  std::int64_t rows_read = 0, weights_read = 0, written = 0;
  std::int64_t total() const { return rows_read + weights_read + written; }
};
inline constexpr std::int64_t kSectorBytes = 32;

// What a warp waits for in a tile, one after the other.
struct Waits {
  int memory_batches = 0;  // rounds of loads of rows that come from memory
  int cache_batches = 0;   // rounds of loads that the L2 cache has: weights behind the reduction, rows that are read again
  int shuffles = 0;        // steps
  int barriers = 0;
  int cluster_barriers = 0;
  int shared_rounds = 0;         // of dependent accesses to shared memory
  int scalar_steps = 0;          // dependent arithmetic of the scalars
  std::int64_t batch_bytes = 0;  // that a thread has under way in such a round of rows
};

struct TileCounts {
  WarpInstructions tile;   // of each tile
  WarpInstructions block;  // once a block
  Sectors tile_sectors, block_sectors;
  Waits waits;
};

// `plan` is for a GPU.
TileCounts count_tile(const Plan& plan);

// Of a whole launch of `blocks` blocks.
struct LaunchCounts {
  std::int64_t blocks = 0, tiles = 0;
  double warp_instructions = 0;
  double warp_pairings = 0;          // of PTX alone, see WarpInstructions::pairing
  std::int64_t moved_bytes = 0;      // between the caches and the multiprocessors, in whole sectors
  std::int64_t footprint_bytes = 0;  // each byte once: what a perfect cache leaves to the memory
};
LaunchCounts count_launch(const Plan& plan, const TileCounts& counts, std::int64_t rows, std::int64_t blocks);

}  // namespace headnorm
