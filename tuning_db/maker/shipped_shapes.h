// Shipped shapes: what the shipped tables have a schedule for.
#pragma once

#include <vector>

#include "core/kernel_spec.h"

namespace headnorm::tables {

struct ShippedShape {
  KernelSpec spec;
  std::vector<std::int64_t> rows;  // ascending
};

// Row counts a factor of four apart: a launch of any size up to twice the last is within a factor of two of one of them.
inline constexpr std::int64_t kRowBuckets[] = {1, 16, 64, 256, 1024, 4096, 16384, 65536};

// For GPUs: the spec of every preset and what users add to it (residual, gate, other dtypes), at the buckets and at the row counts
// that the presets of this shape name. In the order of the presets.
std::vector<ShippedShape> predicted_shapes();

// For CPUs, where each takes seconds of measuring: each width and head size of the presets in bf16, with and without a residual,
// and in f32; at row counts a factor of sixteen apart, so that a launch is within a factor of four of one, which look-ups count as
// near.
std::vector<ShippedShape> measured_shapes();

}  // namespace headnorm::tables
