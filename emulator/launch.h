// How a kernel is launched, and what comes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/counters.h"
#include "emulator/fault.h"

namespace headnorm::emulator {

enum class Order : std::uint8_t { forward, reverse, random };  // in which warps and blocks take their turns

// Where results of approximate instructions lie within the error that the PTX ISA allows them.
enum class ApproximateError : std::uint8_t {
  none,    // the exact result, rounded
  lowest,  // always at the lower end
  highest,
  random,  // anywhere, by the seed
};

enum class Check : std::uint8_t { on, off };

// Bounds, alignment, limits and barriers are always checked: without them a launch has no meaning.
struct Checks {
  Check initialised_memory = Check::on;
  Check initialised_registers = Check::on;
  Check races = Check::on;
  Check block_overlap = Check::on;
};

struct BlockRange {
  std::uint64_t first = 0, last = 0;  // of linear block numbers, `last` not included
};

struct LaunchShape {
  Dim3 grid, block;
  Dim3 cluster{0, 0, 0};  // 0: as the kernel says, else one block
  std::uint64_t dynamic_shared_bytes = 0;
  // The kernel may start while the one launched before it on the device runs (programmatic stream serialization). It runs after
  // that all the same; what its threads touch ahead of griddepcontrol.wait is checked.
  bool starts_early = false;
};

struct LaunchOptions {
  Order order = Order::forward;
  std::uint64_t seed = 1;
  ApproximateError approximate_error = ApproximateError::none;
  Checks checks;
  std::vector<BlockRange> blocks;                                // only these are run; empty: all
  std::uint64_t max_warp_instructions = std::uint64_t{1} << 30;  // of one cluster; past it the launch counts as endless
};

struct LaunchResult {
  std::optional<Fault> fault;  // the first one; memory is as it was left by then
  Counters counters;
};

}  // namespace headnorm::emulator
