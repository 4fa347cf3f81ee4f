#include "emulator/machine/happens_before.h"

#include <algorithm>

namespace headnorm::emulator {
namespace {

constexpr std::uint32_t kLanes = 32;

}  // namespace

void HappensBefore::reset(std::uint32_t blocks, std::uint32_t threads_per_block) {
  blocks_ = blocks;
  padded_ = (threads_per_block + kLanes - 1) / kLanes * kLanes;
  const std::size_t threads = std::size_t{blocks_} * padded_ + 1;
  clocks_.assign(threads, 1);
  clocks_.back() = 0;
  block_rows_.resize(blocks_);
  for (Clocks& row : block_rows_) row.assign(threads, 0);
  warp_rows_.assign(std::size_t{blocks_} * padded_ / kLanes, {});
  lane_rows_.assign(warp_rows_.size(), {});
}

bool HappensBefore::knows_by_smaller_set(std::uint32_t thread, std::uint32_t other, Clock clock) const {
  return clock <= known(thread, other);
}

Clock HappensBefore::known(std::uint32_t thread, std::uint32_t other) const {
  if (thread == other) return clocks_[thread];
  const std::uint32_t warp = thread / kLanes;
  Clock result = block_rows_[thread / padded_][other];
  if (!warp_rows_[warp].empty()) result = std::max(result, warp_rows_[warp][other]);
  if (other / kLanes == warp && !lane_rows_[warp].empty())
    result = std::max(result, lane_rows_[warp][thread % kLanes * kLanes + other % kLanes]);
  return result;
}

void HappensBefore::block_barrier(std::uint32_t block) {
  Clocks& row = block_rows_[block];
  for (std::uint32_t warp = block * padded_ / kLanes; warp < (block + 1) * padded_ / kLanes; ++warp) {
    if (warp_rows_[warp].empty()) continue;
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = std::max(row[i], warp_rows_[warp][i]);
  }
  for (std::uint32_t thread = block * padded_; thread < (block + 1) * padded_; ++thread) row[thread] = clocks_[thread]++;
}

void HappensBefore::cluster_barrier() {
  Clocks all = clocks_;
  all.back() = 0;  // what the copy engine does is known by waiting for it
  for (const Clocks& row : block_rows_) all.back() = std::max(all.back(), row.back());
  for (const Clocks& row : warp_rows_) all.back() = std::max(all.back(), row.empty() ? 0 : row.back());
  for (std::uint32_t thread = 0; thread < engine(); ++thread) ++clocks_[thread];
  for (Clocks& row : block_rows_) row = all;
}

void HappensBefore::warp_barrier(std::uint32_t first_thread, std::uint32_t lanes) {
  Clocks& rows = lane_rows_[first_thread / kLanes];
  if (rows.empty()) rows.assign(kLanes * kLanes, 0);
  Clocks joined(kLanes, 0);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    for (std::uint32_t i = 0; i < kLanes; ++i) joined[i] = std::max(joined[i], rows[lane * kLanes + i]);
    joined[lane] = std::max(joined[lane], clocks_[first_thread + lane]++);
  }
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) != 0) std::copy(joined.begin(), joined.end(), rows.begin() + lane * kLanes);
  }
}

void HappensBefore::release(std::uint32_t first_thread, std::uint32_t lanes, Clocks& clocks) {
  clocks.resize(clocks_.size(), 0);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const std::uint32_t thread = first_thread + lane;
    for (std::uint32_t i = 0; i < kLanes; ++i)
      clocks[first_thread + i] = std::max(clocks[first_thread + i], known(thread, first_thread + i));
    ++clocks_[thread];
  }
  const Clocks& block_row = block_rows_[first_thread / padded_];
  const Clocks& warp_row = warp_rows_[first_thread / kLanes];
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    clocks[i] = std::max(clocks[i], block_row[i]);
    if (!warp_row.empty()) clocks[i] = std::max(clocks[i], warp_row[i]);
  }
}

void HappensBefore::acquire(std::uint32_t first_thread, const Clocks& clocks) {
  Clocks& row = warp_rows_[first_thread / kLanes];
  row.resize(clocks_.size(), 0);
  for (std::size_t i = 0; i < clocks.size(); ++i) row[i] = std::max(row[i], clocks[i]);
}

}  // namespace headnorm::emulator
