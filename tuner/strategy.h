// Strategy: decides which plans a search measures, and in what order (ask and tell).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tuner/search_space.h"

namespace headnorm {

// Not thread-safe. The sequence follows from the space, the seed and the scores told, and from nothing else.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // A plan to measure; never the same twice. None: the results of plans that were asked for are needed first, or, if all of them
  // have been told, the search is finished. default_schedule is the first, so that any search ends with a plan.
  virtual std::optional<Plan> ask() = 0;

  // The result of a plan that ask gave: its score (smaller is better), or none if it was rejected.
  virtual void tell(const Plan& plan, std::optional<double> score) = 0;

  // Plans that are still to come, as far as can be said now.
  virtual int remaining() const = 0;
};

enum class SearchKind : std::uint8_t {
  exhaustive,  // every plan of the space, then the refinements of the best few
  random,      // plans and refinements drawn by seed, kRandomPlans at most
};
const char* to_text(SearchKind kind);
Result<SearchKind> parse_search_kind(std::string_view text);

inline constexpr int kRefinedPlans = 4;
inline constexpr int kRandomPlans = 128;

std::unique_ptr<Strategy> make_strategy(SearchKind kind, SearchSpace space, std::uint64_t seed);

}  // namespace headnorm
