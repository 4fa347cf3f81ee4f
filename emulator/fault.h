// What a kernel did wrong, as the emulator found it: the rule, the place in the text, the thread and the address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace headnorm::emulator {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

enum class Rule : std::uint8_t {
  in_bounds,      // an access lies inside one live allocation, array or parameter
  device_memory,  // global addresses are addresses of the device, not of the host
  alignment,      // an address is a multiple of the whole width of the access
  initialised,    // memory and registers are written before they are read
  barrier,        // all threads of a warp, and as many threads as named, reach a barrier
  shuffle,        // lanes exchange with lanes that take part and are named
  race,           // shared memory: no two threads touch a byte, one of them writing, without a barrier between
  block_overlap,  // global memory: no byte is written by two blocks, unless atomically
  async_copy,     // asynchronous copies are waited for, have the bytes that were promised, and end before the block does
  launch_order,   // what a kernel that may still run writes or reads is touched only behind griddepcontrol.wait
  launch_limit,   // a launch keeps to the limits of the device and of the kernel
  progress,       // a kernel comes to its end
  trap,           // the kernel stopped itself
};

const char* to_text(Rule rule);

struct Fault {
  Rule rule = Rule::trap;
  std::string kernel;
  std::string instruction;  // as written; empty for a launch that was refused
  int line = 0;             // of the PTX
  Dim3 block{0, 0, 0}, thread{0, 0, 0};
  std::optional<std::uint64_t> address;
  std::string what;
};

// "kernel k, line 12 'ld.global.f32 ...', block (0,0,0), thread (3,0,0), address 0x...: what (rule: in_bounds)"
std::string to_text(const Fault& fault);

}  // namespace headnorm::emulator
