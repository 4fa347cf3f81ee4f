// Accesses of threads to memory: which bytes an address means, and every rule that they must keep.
#pragma once

#include "emulator/machine/context.h"

namespace headnorm::emulator {

struct AccessRequest {
  ptx::Space space = ptx::Space::generic;
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  Access access = Access::read;
  Strength strength = Strength::weak;
  bool is_atomic = false;                  // of global memory: overlaps with other blocks are meant
  std::uint64_t used = ~std::uint64_t{0};  // bytes that are read for their value
};

// The bytes, or null after a fault.
std::uint8_t* access_bytes(const Context& context, const Operation& operation, std::uint32_t lane, const AccessRequest& request);

// A place in shared memory of some block of the cluster; `block` is null where there is no such block.
struct SharedPlace {
  Block* block = nullptr;
  std::uint64_t offset = 0;
};
SharedPlace shared_place(const Context& context, std::uint64_t address);
// The space and address that a generic address means.
ptx::Space resolve_generic(std::uint64_t& address);

// The text for a SharedError, without the address.
std::string explain(const Context& context, const SharedError& error, std::uint32_t bytes);
Rule rule_of(const SharedError& error);

// Counts one warp's access; `addresses` of the lanes in `mask`.
void count_access(const Context& context, ptx::Space space, const std::uint64_t (&addresses)[kLanes], std::uint32_t bytes,
                  std::uint32_t mask, Access access);
// Counts the sectors of one stretch of global memory as touched by this launch.
void count_sectors(Launch& launch, std::uint64_t address, std::uint64_t bytes, Access access);

}  // namespace headnorm::emulator
