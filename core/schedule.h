// Schedule: how a kernel of a given spec runs on a target: the launch configuration that the tuner searches. A plain value.
//
// A schedule may be asked for with any values; make_plan says whether it is legal and returns it in canonical form (fields that
// have no effect for the spec and target are set to one fixed value), so that schedules that collapse to one kernel compare equal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "core/result.h"
#include "core/target.h"

namespace headnorm {

// ---- host ----------------------------------------------------------------------------------------------------------------------

// How the two sweeps over a part (read for the statistic, then read again and write) are ordered in time.
enum class HostForm : std::uint8_t {
  reg,    // a part stays in vector registers between its sweeps: least traffic, but reads and writes alternate in bursts
  rot,    // like reg, and the next part is loaded into each register as it is stored: reads and writes overlap
  pipe,   // the second sweep of a part runs beside the first sweep of a part `block` bytes ahead
  split,  // first sweep of a whole block, then second sweep of the block out of L1: always legal
};

enum class Prefetch : std::uint8_t { none, t0, t1, nta };

enum class PrefetchAt : std::uint8_t {
  read,   // in the first sweep
  write,  // in the second sweep: the lines arrive while the store queue drains
};

enum class StoreKind : std::uint8_t {
  nt,     // non-temporal: no read for ownership; wins for outputs that are not read again from cache
  plain,  // through the caches: wins in place and for tensors that fit in cache
};

enum class RsqrtForm : std::uint8_t {
  exact,   // 1 / sqrt(v), both correctly rounded
  newton,  // AVX-512 estimate and one Newton step: shorter latency, up to 2 ulp
};

// How 16-bit elements become f32 lanes. Decides the order of sums.
enum class Unpack : std::uint8_t {
  even_odd,  // bf16 only: a shift and a mask on pairs; lanes hold even and odd elements
  widen,     // zero-extend and shift: lanes in memory order
};

struct HostSchedule {
  HostForm form = HostForm::split;
  int heads = 1;  // parts side by side: their sums come out of one tree, their scalars out of one vector. Decides the order of sums
  std::int64_t block_bytes = 8192;  // bytes of x in a block (split) or between the sweeps (pipe)
  int chunk_lines = 4;              // pipe: lines of one sweep before the other takes its turn
  Prefetch prefetch = Prefetch::none;
  PrefetchAt prefetch_at = PrefetchAt::write;
  std::int64_t prefetch_bytes = 0;  // how far ahead
  StoreKind store = StoreKind::nt;
  int accumulators = 4;  // independent partial sums of a reduction. Decides the order of sums
  RsqrtForm rsqrt = RsqrtForm::exact;
  Unpack unpack = Unpack::even_odd;

  friend bool operator==(const HostSchedule&, const HostSchedule&) = default;
};

// ---- GPU -----------------------------------------------------------------------------------------------------------------------

// Where u stays between the sweeps.
enum class Residency : std::uint8_t {
  registers,  // read once from global memory, straight code: the fastest while it fits
  shared,     // read once, kept in shared memory: parts too long for registers, or fewer registers for more blocks
  reload,     // read again (from L2 mostly): for parts too long for shared memory
};

// How tiles (what a block works on at a time) come to blocks.
enum class GridForm : std::uint8_t {
  once,        // one block a tile: blocks start and end as memory lets them
  persistent,  // as many blocks as the launch has, each takes every grid.x-th tile: weights can stay in registers
};

// When weights that follow the statistic are read.
enum class WeightLoad : std::uint8_t {
  after,   // behind the reduction: fewer registers
  before,  // ahead of it, so that both latencies overlap; once for all tiles where a tile holds whole rows and the grid persists
};

// How x and residual of a tile come to the threads.
enum class Staging : std::uint8_t {
  none,   // loads into registers
  async,  // each thread copies its own elements to shared memory (cp.async, sm_80) ahead of their use: no barrier
  bulk,   // the copy engine brings whole parts to shared memory (cp.async.bulk and an mbarrier, sm_90): one thread a part asks
};

// What is said to the caches.
enum class CacheUse : std::uint8_t {
  plain,   // nothing
  stream,  // the last read of a row and its stores are the first to leave L2, weights the last: rows that are not read again soon
};

// How the kernel follows the one before it in its stream.
enum class LaunchForm : std::uint8_t {
  plain,          // starts when that has ended
  dependent,      // starts while that ends (programmatic dependent launch, sm_90) and waits for it before its first access
  weights_ahead,  // so, and reads the weights before it waits: the kernel before must not write them
};

struct GpuSchedule {
  int lanes = 32;           // threads of a block that share a part; a power of two, at most 1024
  int vector_elements = 8;  // consecutive elements a lane takes at a time; a power of two
  int block_threads = 128;  // upper bound for a tile where groups or rows are 0; a tile takes at least one group
  int groups = 0;           // of each row of a tile; divides the groups of a row; 0: as many as fit
  int rows = 0;             // of a tile; 0: as many as fit
  Residency residency = Residency::registers;
  int unroll = 0;  // chunks that a lane loads before it computes; 0: as many as their bytes allow, at most 4
  GridForm grid = GridForm::once;
  WeightLoad weights = WeightLoad::after;
  int access_bytes = 16;  // widest access; also the alignment that the plan asks of pointers and strides
  int cluster = 1;        // blocks that share a part, with `lanes` threads each: 1, 2, 4, 8 or 16. Decides the order of sums
  Staging staging = Staging::none;
  int stages =
      0;  // with staging: tiles that have room in shared memory, in work and under way; 0: 2 with a persistent grid, else 1
  CacheUse cache = CacheUse::plain;
  LaunchForm launch = LaunchForm::plain;

  friend bool operator==(const GpuSchedule&, const GpuSchedule&) = default;
};

using Schedule = std::variant<HostSchedule, GpuSchedule>;

const char* to_text(HostForm value);
const char* to_text(Prefetch value);
const char* to_text(PrefetchAt value);
const char* to_text(StoreKind value);
const char* to_text(RsqrtForm value);
const char* to_text(Unpack value);
const char* to_text(Residency value);
const char* to_text(GridForm value);
const char* to_text(WeightLoad value);
const char* to_text(Staging value);
const char* to_text(CacheUse value);
const char* to_text(LaunchForm value);

// Canonical text, e.g.
// "form=split,heads=4,block=8192,prefetch=t1,prefetch_at=write,prefetch_bytes=16384,store=nt,accumulators=4,rsqrt=exact,
// unpack=even_odd" or
// "lanes=32,vector=8,block=128,groups=4,rows=1,residency=registers,unroll=1,grid=once,weights=after,access=16", with
// ",cluster=8,staging=bulk,stages=2,cache=stream,launch=dependent" behind it where these are not 1, none, plain and plain.
// parse_schedule(to_text(s)) == s. A text with 'form' is a host schedule, one with 'lanes' a GPU schedule; fields left out take
// their defaults.
std::string to_text(const Schedule& schedule);
Result<Schedule> parse_schedule(std::string_view text);
// For a target of `kind`: a text of fields with neither 'form' nor 'lanes' is a schedule of that kind.
Result<Schedule> parse_schedule(std::string_view text, TargetKind kind);

}  // namespace headnorm
