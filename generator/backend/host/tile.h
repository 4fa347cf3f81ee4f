// Tiles: several parts of a row side by side, as one stretch of elements. Which part each lane of a line belongs to, and the tree
// that makes one vector of sums, a lane for a part, out of vectors whose lanes belong to parts.
#pragma once

#include "generator/backend/host/line_access.h"

namespace headnorm::host {

inline constexpr int kNoPart = -1;  // of a lane that holds no element

// The part of each lane of the line's `vector` (0 or 1), within the tile.
std::vector<int> parts_of_lanes(const Line& line, int vector, std::int64_t part_elements);

// The one part that all lanes with an element belong to, or kNoPart where there are several.
int common_part(const std::vector<int>& parts);

// Partial sums in the lanes of a vector, each of one part.
struct LaneSums {
  llvm::Value* value = nullptr;
  std::vector<int> parts;
};

// <count x f32>, the sums of parts 0 to count - 1. Sums are added in pairs, level by level: two vectors become one with half as
// many lanes for each part, so that `count` parts take about as many shuffles as one takes levels times two. Parts of one vector
// must have equally many lanes each, a power of two.
llvm::Value* sum_of_parts(FunctionBuilder& builder, std::vector<LaneSums> sums, int count);

}  // namespace headnorm::host
