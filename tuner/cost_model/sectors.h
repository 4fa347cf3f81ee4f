// Sectors: what the accesses of one block of a GPU plan touch, found by going through the addresses of its warps.
#pragma once

#include "tuner/cost_model/tile_counts.h"

namespace headnorm {

// Of one whole tile whose rows begin at multiples of their length, with every access to rows and weights as often as the plan makes
// it.
Sectors count_sectors(const Plan& plan);

// Whether the last chunk of a part reaches past its end, and no other is handled with it: what only its stores need is then done
// inside alone.
bool tail_is_alone(const Plan& plan);

// Whether a weight is read by the elements alone that are stored: past the end of a part, nothing else asks for it.
bool read_when_stored(const Plan& plan, Operand weight);

}  // namespace headnorm
