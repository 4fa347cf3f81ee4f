// What a launch did, counted. Nothing here is a time.
#pragma once

#include <array>
#include <cstdint>

namespace headnorm::emulator {

enum class Kind : std::uint8_t {
  integer,
  floating,
  convert,
  move,
  compare,
  branch,
  global,
  shared,
  local,
  param,
  shuffle,
  barrier,
  async,
  atomic,
  other
};
inline constexpr std::size_t kKinds = 15;

const char* to_text(Kind kind);

struct Counters {
  struct Instructions {
    std::uint64_t warps = 0, threads = 0;  // issued by warps; executed by threads
  };
  std::array<Instructions, kKinds> instructions{};

  struct Global {
    std::uint64_t requested_bytes = 0;  // by threads, the same byte counted as often as asked for
    std::uint64_t sectors = 0;          // of 32 bytes, touched by each warp's access
    std::uint64_t footprint_bytes = 0;  // of the sectors that the launch touched, each counted once: traffic under a perfect cache
  };
  Global loads, stores;  // with atomics and asynchronous copies

  std::uint64_t shared_accesses = 0;        // wavefronts that the accesses would take without conflicts
  std::uint64_t shared_bank_conflicts = 0;  // wavefronts on top
  std::uint64_t barriers = 0, blocks = 0;

  std::uint64_t thread_instructions() const {
    std::uint64_t sum = 0;
    for (const Instructions& i : instructions) sum += i.threads;
    return sum;
  }
};

}  // namespace headnorm::emulator
