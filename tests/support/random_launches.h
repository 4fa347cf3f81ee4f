// Random launches on the host: any spec, schedule, row count, strides, alignments and aliasing.
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

// On one of `isas`. The plan may ask for an alignment that the layout does not have: its unaligned twin serves then.
RandomLaunch random_launch(Random& random, const std::vector<HostIsa>& isas);

// Random weights and rows. Returns the inputs of each row: a launch in place overwrites them.
std::vector<RowValues> fill_random(Random& random, LaunchTensors& tensors);

}  // namespace headnorm::test
