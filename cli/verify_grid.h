// Verify grid: which specs, row counts and schedules verify goes through.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/plan.h"

namespace headnorm::cli {

enum class Grid : std::uint8_t {
  standard,  // every option and every kind of shape at least once: about a minute on one thread
  full,      // every option on every shape, and more schedules: 90,000 cases, ten minutes of a processor on an emulated GPU
};
Result<Grid> parse_grid(std::string_view text);

// Kernels of all shapes and options.
std::vector<KernelSpec> grid_specs(Grid grid);

// Different plans of a spec: the default, the one for misaligned tensors, and some spread over the search space.
Result<std::vector<Plan>> grid_plans(const KernelSpec& spec, const Target& target, Grid grid);

std::vector<std::int64_t> grid_rows(Grid grid);

}  // namespace headnorm::cli
