// Instructions whose result the PTX ISA bounds but does not fix: exact and rounded once by default, or moved within the bound as
// the launch asks (ApproximateError).
//
// Bounds, relative to the result unless said: rcp, sqrt 2^-23; rsqrt 2^-22.9; ex2 2^-22; tanh 2^-11; lg2 2^-22, absolute between
// 0.5 and 2; sin, cos 2^-20.5 absolute; div 2 units in the last place. Of f16: ex2 2^-9.9, tanh 2^-10.987 absolute; of bf16: ex2
// 2^-7, tanh 2^-8 absolute.
#pragma once

#include "emulator/machine/alu.h"
#include "emulator/machine/kernel.h"

namespace headnorm::emulator {

enum class Approximation : std::uint8_t { rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh };

// Null where the type has no such instruction.
Run approximate(Approximation approximation, ptx::Type type, alu::Flush flush);
Run approximate_divide(alu::Flush flush);

}  // namespace headnorm::emulator
