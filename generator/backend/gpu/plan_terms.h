// What the backends for GPUs read out of a plan in the same words.
#pragma once

#include "core/plan.h"
#include "generator/program/program.h"

namespace headnorm::gpu {

// Elements that lie within a part or past its end together: the vector, or what of it divides the part.
int granule_elements(const Plan& plan);

// Of sums and maxima over heads or seed heads: whether each is over the parts of a group together, else over one part alone; how
// the threads of a block take it; and how many a block has.
bool is_over_group(const Plan& plan, program::Domain domain);
const GpuReduction& reduction_of(const Plan& plan, program::Domain domain);
std::int64_t partitions(const Plan& plan, program::Domain domain);

// Whether an operation on elements takes two neighbours at a time: a product, a fused one, or a sum. But not the sum of a product:
// an assembler makes one fused operation of the two if both are of pairs, though they name their rounding. Nor that of two
// loaded elements of which one is f16: there is a sum that takes it as it is.
bool is_packed(const Plan& plan, const program::Program& program, program::ValueId id);

}  // namespace headnorm::gpu
