// What instructions that touch memory have in common: state space, strength, hints, and values in slots of any width.
#pragma once

#include "emulator/machine/access.h"
#include "emulator/machine/decoding.h"

namespace headnorm::emulator {

// Takes .global, .shared, ...; generic where none is named.
Space take_memory_space(Decoding& d);

// Takes .volatile, .relaxed, .acquire, .release, .acq_rel, .weak with their scope.
Strength take_strength(Decoding& d);

// Takes what speaks to caches; the number of operands that follow for it.
std::size_t take_cache_hints(Decoding& d);

inline Kind kind_of(Space space) {
  switch (space) {
    case Space::shared:
      return Kind::shared;
    case Space::local:
      return Kind::local;
    case Space::param:
      return Kind::param;
    default:
      return Kind::global;
  }
}

inline std::uint64_t lane_address(const Context& context, const AddressOperand& address, std::uint32_t lane) {
  const auto offset = static_cast<std::uint64_t>(address.offset);
  if (address.is_wide) return context.wide(address.base, lane) + offset;
  return (context.word(address.base, lane) + offset) & 0xffffffffu;
}

inline void lane_addresses(const Context& context, const AddressOperand& address, std::uint64_t (&addresses)[kLanes]) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) addresses[lane] = lane_address(context, address, lane);
}

}  // namespace headnorm::emulator
