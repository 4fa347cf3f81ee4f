// Random launches: any spec, host schedule, row count, strides, alignments and aliasing.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "tests/support/launch_tensors.h"
#include "tests/support/random_cases.h"

namespace headnorm::test {

struct RandomLaunch {
  Plan plan;
  std::int64_t rows = 0;
  Layout layout;
};
std::string to_text(const RandomLaunch& launch);

enum class Addresses : std::uint8_t {
  any,      // of bytes
  aligned,  // to an element
};
// An alias that the spec allows. Half of the layouts are what a library allocates; the others have gaps of at least a guard between
// rows and start at any of `addresses`.
Layout random_layout(Random& random, const KernelSpec& spec, Addresses addresses);

// On one of `isas`. The plan may ask for an alignment that the layout does not have: its unaligned twin serves then.
RandomLaunch random_launch(Random& random, const std::vector<HostIsa>& isas);

// Random weights and rows. Returns the inputs of each row: a launch in place overwrites them.
std::vector<RowValues> fill_random(Random& random, LaunchTensors& tensors);

}  // namespace headnorm::test
