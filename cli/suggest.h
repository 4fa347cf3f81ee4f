// Suggest: the known name nearest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headnorm::cli {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

// "did you mean 'x'? " with the nearest of `names`, or nothing where none is near.
std::string suggestion(std::string_view typed, const std::vector<std::string>& names);

}  // namespace headnorm::cli
