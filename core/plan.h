// Plan: a legal (spec, schedule, target) with every derived number. make_plan is the only way to one: whatever a backend, the
// runtime or the tuner needs to know about a kernel's shape is here, and nothing derives it again.
//
// Partitions of a row. Statistics are taken over heads (d elements), seed dots over seed heads (e elements); one divides the other.
//   part:  the finer of the two (every reduction is a sum over parts, in order)
//   group: the coarser; groups are independent of one another
// Without a gate, or with a seed head per head, part == group == head.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/kernel_spec.h"
#include "core/launch_abi.h"
#include "core/schedule.h"
#include "core/target.h"

namespace headnorm {

// Order of f32 lanes within a line of a part.
enum class LaneOrder : std::uint8_t { even_odd, memory };

struct HostPlan {
  int lanes = 0;  // f32 lanes of a vector register
  LaneOrder order = LaneOrder::memory;
  int line_elements = 0;              // elements handled at a time: lanes (memory order) or 2*lanes (even_odd)
  std::int64_t lines_per_part = 0;    // full lines
  int tail_elements = 0;              // elements of a part after its full lines
  bool unrolled = false;              // the lines of a part are straight code, not a loop
  std::int64_t groups_per_block = 0;  // split, pipe (the lag); within a row, or whole rows
  std::int64_t rows_per_block = 0;    // split; > 1 only if a block takes whole rows
  // Parts that are handled side by side, as one stretch of a row: a tile. Lines run through it from its start, so that one line may
  // hold elements of several parts. split: the last tile of a row may have fewer parts; a block begins where a tile does.
  int tile_parts = 1;
  int accumulators = 0;  // of a part
  int registers = 0;     // vector registers in use at a time, estimated: a kept part, sums, and those of work
  int y_alignment = 1;   // bytes that y, residual_out and their strides must be multiples of: the most of both (1: any)
};

// How a sum is taken over the threads of a part or of a group: a butterfly of shuffles within aligned runs of `shuffle_lanes`
// threads, then `partials` values through shared memory, which every thread adds in order (1: no shared memory).
struct GpuReduction {
  static constexpr int kMaxUnrolledPartials = 32;
  int shuffle_lanes = 1;
  int partials = 1;
  bool unrolled() const { return partials <= kMaxUnrolledPartials; }  // the adding is straight code, not a loop
};

// A tile is what a block works on at a time: `groups_per_tile` consecutive groups of each of `rows_per_tile` consecutive rows.
// Tiles are numbered along a row first, tile t begins at row t / tiles_per_row * rows_per_tile.
//
// With clusters, `cluster` blocks work on one tile, each with part_lanes() / cluster lanes of every part: lane l of the block of
// rank r is lane r * lanes + l of the part. Each block sums over its own lanes; then thread l < cluster of a part (or of a group,
// counted along its parts) writes that sum to place r of the part's `cluster` places in the shared memory of block l, and behind a
// barrier of the cluster every thread adds its block's places in order.
struct GpuPlan {
  int lanes = 0;    // threads of a part, of one block
  int cluster = 1;  // blocks that share a part
  int part_lanes() const { return lanes * cluster; }
  int vector_elements = 0;
  std::int64_t chunks = 0;  // vectors of a part that a lane takes, the last perhaps partly past the end
  // Elements of a part that all its lanes take at a time: a lane's vectors are that far apart.
  std::int64_t chunk_elements() const { return std::int64_t{part_lanes()} * vector_elements; }
  bool exact = false;  // chunk_elements() * chunks == part_elements: no bounds checks
  int unroll = 1;      // chunks that a lane loads before it computes; with loops: of a turn
  // Elementwise sums and products of two neighbouring elements are one instruction, which rounds each as its own would.
  bool packed = false;
  int groups_per_tile = 0;
  int rows_per_tile = 0;
  std::int64_t tiles_per_row = 0;
  int groups_per_block() const { return groups_per_tile * rows_per_tile; }
  int block_threads = 0;               // groups_per_block() * parts_per_group * lanes, rounded up to whole warps
  GpuReduction over_part, over_group;  // within a block
  int kept_bytes = 0;                  // of an element of u between the sweeps, with residency shared and no staging
  // Staging: a stage has room for x and residual of one tile, as they stand in memory. In an operand's room (stage_offset) the
  // parts of the block lie in the order of their slots, block_part_elements() apart, and in a part's room the block's elements in
  // the order of chunks, then lanes: an element of chunk c and lane l begins at (c * lanes + l) * vector_elements. Tile number n of
  // a block is in stage n % stages. With residency shared the sweeps read u again from there.
  int stages = 0;       // 0: no staging
  int stage_bytes = 0;  // of one stage; a multiple of 16
  std::int64_t block_part_elements() const { return chunks * lanes * vector_elements; }
  int shared_bytes = 0;                  // static: of sums and barriers; never more than the 48 KiB that every block has
  int dynamic_shared_bytes = 0;          // to be given at the launch; above 48 KiB in all, the kernel must be allowed it before
  bool weights_stay = false;             // weights are read once before the tiles of a block
  int registers = 0;                     // of a thread, as an assembler gives them: an estimate, see docs/schedules.md
  int access_bytes = 0;                  // of the widest access of any operand; see operand_access_bytes
  std::int64_t max_rows_per_launch = 0;  // the grid has x only
};

struct Plan {
  KernelSpec spec;
  Schedule schedule;  // canonical
  Target target;

  std::int64_t part_elements = 0;
  std::int64_t parts_per_group = 0;
  std::int64_t groups_per_row = 0;
  std::int64_t group_elements() const { return part_elements * parts_per_group; }
  std::int64_t parts_per_row() const { return parts_per_group * groups_per_row; }
  // Parts in a head and in a seed head (one of them is 1).
  std::int64_t parts_per_head = 1;
  std::int64_t parts_per_seed = 1;

  std::variant<HostPlan, GpuPlan> shape;
  const HostPlan& host() const { return std::get<HostPlan>(shape); }
  const GpuPlan& gpu() const { return std::get<GpuPlan>(shape); }
  const HostSchedule& host_schedule() const { return std::get<HostSchedule>(schedule); }
  const GpuSchedule& gpu_schedule() const { return std::get<GpuSchedule>(schedule); }
};

// Errors (user): the spec breaks a rule of make_spec, the schedule is of another kind than the target, or a rule of the schedule is
// broken; the message names the field, its value and the rule.
Result<Plan> make_plan(const KernelSpec& spec, const Schedule& schedule, const Target& target);

// GPU: tiles of `rows` rows. The grid, in x alone, of a schedule with grid=once; the largest that is of use with grid=persistent,
// which is right for any grid of at least one block. With clusters, of those: a grid has grid_blocks, and any multiple of the
// cluster is right for a persistent one.
std::int64_t tile_count(const Plan& plan, std::int64_t rows);
std::int64_t grid_blocks(const Plan& plan, std::int64_t rows);

// GPU, with staging: bytes from the start of a stage to the room of x or residual.
std::int64_t stage_offset(const Plan& plan, Operand operand);

// GPU: bytes of the widest access of `operand`. Its pointer and, for a row operand, its row stride must be multiples of this.
int operand_access_bytes(const Plan& plan, Operand operand);

// A plan that is legal for every spec and needs no tuning: what serves a shape for which nothing was tuned.
Schedule default_schedule(const KernelSpec& spec, const Target& target);

// The same arithmetic in the same order (bit-equal results) without demands on alignment: what serves misaligned tensors.
Schedule unaligned_schedule(const Plan& plan);

// Bytes from and to memory that one row costs at least, and the weights' bytes once a launch (math: each row tensor once).
struct Traffic {
  std::int64_t read_bytes_per_row = 0;
  std::int64_t written_bytes_per_row = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t total_bytes(std::int64_t rows) const { return rows * (read_bytes_per_row + written_bytes_per_row) + weight_bytes; }
};
Traffic minimum_traffic(const KernelSpec& spec);

}  // namespace headnorm
