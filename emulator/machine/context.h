// The state of a launch while it runs: launch, cluster, block, warp; a Context is what one operation sees of it.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>

#include "emulator/device_model.h"
#include "emulator/launch.h"
#include "emulator/machine/global_memory.h"
#include "emulator/machine/happens_before.h"
#include "emulator/machine/kernel.h"
#include "emulator/machine/shared_memory.h"

namespace headnorm::emulator {

// Generic addresses of spaces that are not global. A block of a cluster is a piece of the shared window: in an address of the
// shared space its number plus one stands above the offset, and nothing for the block itself.
inline constexpr std::uint64_t kSharedWindow = std::uint64_t{1} << 40, kLocalWindow = std::uint64_t{2} << 40,
                               kParamWindow = std::uint64_t{3} << 40, kWindowBytes = std::uint64_t{1} << 32;
inline constexpr std::uint32_t kBlockShift = 24;  // of a block's number in a shared address
inline constexpr std::uint32_t kBarriers = 16;    // bar.sync 0 to 15

struct AsyncCopy {
  const Operation* operation = nullptr;
  std::uint32_t thread = 0;        // of the cluster, that issued it
  std::uint32_t block = 0;         // of the cluster, whose shared memory takes part
  std::uint64_t offset = 0;        // in that shared memory
  bool counts_bytes = false;       // against an mbarrier's promised bytes
  std::vector<std::uint8_t> data;  // what arrives there; of a copy from there: as many bytes as it reads
};

// cp.async of one thread: groups[i] are committed, oldest first; `open` is not yet.
struct AsyncGroups {
  std::vector<std::vector<AsyncCopy>> groups;
  std::vector<AsyncCopy> open;
  bool is_empty() const { return groups.empty() && open.empty(); }
};

// Lanes of a warp that stand at one instruction.
struct Group {
  enum class State : std::uint8_t { ready, converging, waiting, polling } state = State::ready;
  std::uint32_t at = 0, lanes = 0;
  std::uint32_t barrier = 0;  // that it waits for; kBarriers: the cluster's
};

struct Warp {
  std::uint32_t number = 0, block = 0, first_thread = 0;  // in the block; of the cluster; of the cluster
  std::uint32_t lanes = 0, alive = 0;
  std::vector<Group> groups;
  std::vector<std::uint64_t> registers;                      // slots
  std::vector<std::uint32_t> defined;                        // lanes of each slot
  std::vector<std::uint8_t> local, local_written;            // bytes of lane 0, then of lane 1, ...
  std::map<std::uint32_t, AsyncGroups> copies, bulk_copies;  // by lane
  std::uint32_t settled = 0;                                 // lanes for which no kernel before may run any more
  std::uint32_t cluster_arrived = 0;  // lanes that arrived at the cluster's barrier and have not waited for it yet
  std::uint64_t cluster_barrier = 0;  // which one that was

  std::byte* slot(Slot slot) { return reinterpret_cast<std::byte*>(registers.data()) + slot * kSlotBytes; }
};

// A named barrier of a block.
struct Barrier {
  struct Reader {
    Warp* warp = nullptr;
    const Operation* operation = nullptr;
    std::uint32_t lanes = 0;
  };
  std::uint32_t arrived = 0, expected = 0;  // threads; expected 0: all that live
  std::uint32_t ones = 0, asked = 0;        // of barrier.red: threads whose predicate is true, threads with one
  Clocks clocks;                            // of those that arrived, where only some of the block meet
  std::vector<Reader> readers;              // waiting for a reduction's result
};

struct Mbarrier {
  std::uint32_t expected = 0, pending = 0;  // arrivals
  std::int64_t transaction_bytes = 0;       // promised and not arrived
  std::uint64_t phase = 0;
  Clocks clocks, completed_clocks;
  std::vector<AsyncCopy> copies;    // on their way; they arrive when somebody asks
  std::uint32_t late_arrivals = 0;  // of cp.async.mbarrier.arrive: with the copies
  std::uint32_t made_by = 0;        // thread of the cluster
  bool is_shown = false;            // to the copy engine, by a fence of that thread
};

struct Block {
  std::uint32_t rank = 0;  // in its cluster
  Dim3 index{0, 0, 0};
  std::uint64_t linear = 0;
  std::uint32_t alive = 0;  // threads
  SharedMemory shared;
  std::array<Barrier, kBarriers> barriers;
  std::map<std::uint64_t, Mbarrier> mbarriers;  // by offset in shared memory
};

// The first of a row of launches, up to the current one: its tags and number. None: number 0.
struct Unsettled {
  Tag first_tag = 0;
  std::uint32_t launch_number = 0;
};

struct Launch {
  const Kernel& kernel;
  const DeviceModel& model;
  GlobalMemory& memory;
  const LaunchOptions& options;
  LaunchShape shape;  // cluster filled in
  std::span<const std::uint8_t> parameters;
  Tag first_tag = kFirstTag;
  Unsettled before;  // launches that may still run
  // A thread ended, or let dependent kernels start, before it had waited for those.
  bool leaves_unsettled = false;
  Counters counters;
  std::optional<Fault> fault;
  std::mt19937_64 random;
  std::uint64_t progress = 0;  // rises with everything that others may wait for
  std::uint64_t time_ns = 0;   // what %globaltimer shows; moves when it is read
};

struct Cluster {
  std::vector<Block> blocks;
  std::vector<Warp> warps;
  HappensBefore order;
  std::uint32_t warps_per_block = 0;
  std::uint32_t arrived = 0;   // threads at the cluster's barrier
  std::uint64_t barriers = 0;  // of the cluster that have completed
};

struct Context {
  Launch& launch;
  Cluster& cluster;
  Block& block;
  Warp& warp;
  std::uint32_t group = 0;  // of the warp, that runs

  std::byte* slot(Slot slot) const { return warp.slot(slot); }
  std::uint32_t mask(Slot slot) const {
    std::uint32_t value = 0;
    std::memcpy(&value, warp.slot(slot), sizeof value);
    return value;
  }
  void set_mask(Slot slot, std::uint32_t value, std::uint32_t lanes) const {
    if (slot == kNoSlot) return;
    value = (mask(slot) & ~lanes) | (value & lanes);
    std::memcpy(warp.slot(slot), &value, sizeof value);
  }
  std::uint32_t word(Slot slot, std::uint32_t lane) const {
    std::uint32_t value = 0;
    std::memcpy(&value, warp.slot(slot) + lane * sizeof value, sizeof value);
    return value;
  }
  std::uint64_t wide(Slot slot, std::uint32_t lane) const {
    std::uint64_t value = 0;
    std::memcpy(&value, warp.slot(slot) + lane * sizeof value, sizeof value);
    return value;
  }
  void set_word(Slot slot, std::uint32_t lane, std::uint32_t value) const {
    std::memcpy(warp.slot(slot) + lane * sizeof value, &value, sizeof value);
  }
  void set_wide(Slot slot, std::uint32_t lane, std::uint64_t value) const {
    std::memcpy(warp.slot(slot) + lane * sizeof value, &value, sizeof value);
  }
  void define(Slot slot, std::uint32_t lanes) const { warp.defined[slot] |= lanes; }
  std::uint32_t thread(std::uint32_t lane) const { return warp.first_thread + lane; }

  // Notes the launch's first fault. `lane` is the lane that is named.
  Step fail(const Operation& operation, std::uint32_t lane, Rule rule, std::optional<std::uint64_t> address,
            std::string what) const;
};

// "(3,0,0) of block (1,0,0)" for a thread of the cluster.
std::string thread_name(const Launch& launch, const Cluster& cluster, std::uint32_t thread);

inline std::uint32_t first_lane(std::uint32_t lanes) { return static_cast<std::uint32_t>(__builtin_ctz(lanes)); }

}  // namespace headnorm::emulator
