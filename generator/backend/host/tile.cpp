#include "generator/backend/host/tile.h"

#include <algorithm>
#include <map>

namespace headnorm::host {
namespace {

// Lanes of one step of a shuffle. Runs of one lane are paired within 128 bits, runs of four across: one instruction each.
constexpr int kGranules[] = {1, 4};
constexpr int kGranulesPerBlock = 4;

// A level takes the even granules of both vectors and adds the odd ones. Lane numbers as in a shuffle of two vectors.
std::vector<int> take_granules(int lanes, int granule, int odd) {
  const int block = std::min(kGranulesPerBlock * granule, lanes);
  std::vector<int> taken;
  for (int first = 0; first < lanes; first += block) {
    for (int source : {0, lanes}) {
      for (int at = odd * granule; at < block; at += 2 * granule) {
        for (int lane = 0; lane < granule; ++lane) taken.push_back(source + first + at + lane);
      }
    }
  }
  return taken;
}

std::vector<int> shuffled_parts(const LaneSums& a, const LaneSums& b, const std::vector<int>& taken) {
  std::vector<int> both = a.parts;
  both.insert(both.end(), b.parts.begin(), b.parts.end());
  std::vector<int> parts;
  for (int lane : taken) parts.push_back(both[static_cast<std::size_t>(lane)]);
  return parts;
}

// Lanes that the part with the most of them has.
int lanes_per_part(const LaneSums& sums) {
  std::map<int, int> lanes;
  int most = 0;
  for (int part : sums.parts) {
    if (part != kNoPart) most = std::max(most, ++lanes[part]);
  }
  return most;
}

LaneSums nothing_like(const LaneSums& sums) {
  return {llvm::PoisonValue::get(sums.value->getType()), std::vector<int>(sums.parts.size(), kNoPart)};
}

// The granule at which every addition of a level stays within a part, or 0.
int common_granule(const LaneSums& a, const LaneSums& b) {
  const int lanes = static_cast<int>(a.parts.size());
  for (int granule : kGranules) {
    if (2 * granule > lanes) continue;
    if (shuffled_parts(a, b, take_granules(lanes, granule, 0)) == shuffled_parts(a, b, take_granules(lanes, granule, 1)))
      return granule;
  }
  return 0;
}

LaneSums add_level(FunctionBuilder& b, const LaneSums& first, const LaneSums& second, int granule) {
  const int lanes = static_cast<int>(first.parts.size());
  const std::vector<int> even = take_granules(lanes, granule, 0), odd = take_granules(lanes, granule, 1);
  return {
      b.CreateFAdd(b.CreateShuffleVector(first.value, second.value, even), b.CreateShuffleVector(first.value, second.value, odd)),
      shuffled_parts(first, second, even)};
}

// Whether both have runs of the same lengths at the same lanes. Only such vectors meet: what comes of them has the pattern again,
// of shorter runs, so that the levels go on to single lanes.
bool same_pattern(const LaneSums& a, const LaneSums& b) {
  for (std::size_t lane = 0; lane < a.parts.size(); ++lane) {
    if ((a.parts[lane] == kNoPart) != (b.parts[lane] == kNoPart)) return false;
    if (lane > 0 && (a.parts[lane] == a.parts[lane - 1]) != (b.parts[lane] == b.parts[lane - 1])) return false;
  }
  return true;
}

// One level for the vectors whose parts have `lanes` lanes each; the others wait.
std::vector<LaneSums> halve(FunctionBuilder& b, const std::vector<LaneSums>& sums, int lanes) {
  std::vector<LaneSums> next;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    if (lanes_per_part(sums[k]) != lanes) {
      next.push_back(sums[k]);
      continue;
    }
    const bool pair = k + 1 < sums.size() && same_pattern(sums[k], sums[k + 1]) && common_granule(sums[k], sums[k + 1]) != 0;
    const LaneSums second = pair ? sums[k + 1] : nothing_like(sums[k]);
    next.push_back(add_level(b, sums[k], second, common_granule(sums[k], second)));
    if (pair) ++k;
  }
  return next;
}

// From vectors with one lane for each part, in any order.
llvm::Value* gather_parts(FunctionBuilder& b, const std::vector<LaneSums>& sums, int count) {
  llvm::Value* result = nullptr;
  for (const LaneSums& vector : sums) {
    std::vector<int> from(static_cast<std::size_t>(count), llvm::PoisonMaskElem), merged;
    for (int part = 0; part < count; ++part) {
      const auto lane = std::find(vector.parts.begin(), vector.parts.end(), part);
      if (lane != vector.parts.end()) from[static_cast<std::size_t>(part)] = static_cast<int>(lane - vector.parts.begin());
      merged.push_back(lane != vector.parts.end() ? count + part : part);
    }
    llvm::Value* placed = b.CreateShuffleVector(vector.value, from);
    result = result == nullptr ? placed : b.CreateShuffleVector(result, placed, merged);
  }
  return result;
}

}  // namespace

std::vector<int> parts_of_lanes(const Line& line, int vector, std::int64_t part_elements) {
  std::vector<int> parts;
  for (int lane = 0; lane < line.lanes; ++lane) {
    const int element = line.order == LaneOrder::even_odd ? 2 * lane + vector : lane;
    parts.push_back(element < line.elements ? static_cast<int>((line.first + element) / part_elements) : kNoPart);
  }
  return parts;
}

int common_part(const std::vector<int>& parts) {
  const int last = *std::max_element(parts.begin(), parts.end());
  const bool common = std::all_of(parts.begin(), parts.end(), [&](int part) { return part == last || part == kNoPart; });
  return common ? last : kNoPart;
}

llvm::Value* sum_of_parts(FunctionBuilder& b, std::vector<LaneSums> sums, int count) {
  for (;;) {
    int most = 1;
    for (const LaneSums& vector : sums) most = std::max(most, lanes_per_part(vector));
    if (most == 1) break;
    sums = halve(b, sums, most);
  }
  return gather_parts(b, sums, count);
}

}  // namespace headnorm::host
