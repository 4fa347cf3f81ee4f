// Which thread of a cluster knows what other threads did: vector clocks, kept per block, warp and lane.
//
// A thread's clock counts its releases. Barriers of a whole block or cluster are kept in one row a block; only what smaller sets of
// threads agree on (warp barriers, named barriers, mbarriers) takes rows of its own. An acquire by some lanes of a warp from other
// warps counts for the whole warp: a race may be missed there, never invented.
#pragma once

#include <cstdint>
#include <vector>

namespace headnorm::emulator {

using Clock = std::uint32_t;
using Clocks = std::vector<Clock>;  // by thread of the cluster

class HappensBefore {
 public:
  void reset(std::uint32_t blocks, std::uint32_t threads_per_block);  // the last block row also counts the copy engine

  Clock clock(std::uint32_t thread) const { return clocks_[thread]; }
  // Whether `thread` knows what `other` did at `clock`.
  bool knows(std::uint32_t thread, std::uint32_t other, Clock clock) const {
    if (thread == other || clock <= block_rows_[thread / padded_][other]) return true;
    return knows_by_smaller_set(thread, other, clock);
  }

  void block_barrier(std::uint32_t block);
  void cluster_barrier();
  void warp_barrier(std::uint32_t first_thread, std::uint32_t lanes);

  // Adds what these lanes know to `clocks`, and moves their clocks on.
  void release(std::uint32_t first_thread, std::uint32_t lanes, Clocks& clocks);
  void acquire(std::uint32_t first_thread, const Clocks& clocks);

  // The engine of asynchronous copies is a thread of its own.
  std::uint32_t engine() const { return blocks_ * padded_; }
  Clock tick_engine() { return ++clocks_[engine()]; }

 private:
  bool knows_by_smaller_set(std::uint32_t thread, std::uint32_t other, Clock clock) const;
  Clock known(std::uint32_t thread, std::uint32_t other) const;

  std::uint32_t blocks_ = 0, padded_ = 0;  // threads of a block, rounded up to whole warps
  Clocks clocks_;
  std::vector<Clocks> block_rows_;  // by block
  std::vector<Clocks> warp_rows_;   // by warp; empty: nothing more than the block's row
  std::vector<Clocks> lane_rows_;   // by warp: 32 rows of 32; or empty
};

}  // namespace headnorm::emulator
