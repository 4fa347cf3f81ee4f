// The operations of atomics and of reductions over a warp.
#pragma once

#include "emulator/machine/decoding.h"

namespace headnorm::emulator {

enum class Atomic : std::uint8_t { add, min, max, bit_and, bit_or, bit_xor, exchange, compare, increment, decrement };

// What stands in memory after the operation; values are register bits of the type, `c` is the third operand of a compare and swap.
std::uint64_t apply(Atomic atomic, Type type, std::uint64_t old, std::uint64_t b, std::uint64_t c);

// Takes .add, .min, ...; false where there is none.
bool take_atomic(Decoding& decoding, Atomic& atomic);

}  // namespace headnorm::emulator
