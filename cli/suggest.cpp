#include "cli/suggest.h"

#include <fmt/format.h>

#include <algorithm>

namespace headnorm::cli {
namespace {

constexpr std::size_t kLongestName = 64;  // longer texts are no typing errors, and the distance is quadratic

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> cost((a.size() + 1) * columns);
  auto at = [&](std::size_t i, std::size_t j) -> int& { return cost[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return cost.back();
}

std::string suggestion(std::string_view typed, const std::vector<std::string>& names) {
  if (typed.empty() || typed.size() > kLongestName) return "";
  const std::string* nearest = nullptr;
  int least = std::max(1, static_cast<int>(typed.size()) / 3) + 1;
  for (const std::string& name : names) {
    const int distance = edit_distance(typed, name);
    if (distance >= least) continue;
    least = distance;
    nearest = &name;
  }
  return nearest == nullptr ? "" : fmt::format("did you mean '{}'? ", *nearest);
}

}  // namespace headnorm::cli
