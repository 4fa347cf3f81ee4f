// What a sweep over a tile of several parts does otherwise than one over a single part: scalars with a lane for each part, weights
// that repeat, and sums of which several are under way.
#include <algorithm>

#include "generator/backend/host/sweep.h"

namespace headnorm::host {

using program::Instruction;

namespace {

// Lane k of `values` in lanes k * count to k * count + count - 1.
llvm::Value* repeat_lanes(FunctionBuilder& b, llvm::Value* values, int count) {
  std::vector<int> lanes;
  for (int lane = 0; lane < lanes_of(values) * count; ++lane) lanes.push_back(lane / count);
  return b.CreateShuffleVector(values, lanes);
}

llvm::Value* zero_extend(FunctionBuilder& b, llvm::Value* vector, int lanes) {
  if (lanes_of(vector) == lanes) return vector;
  std::vector<int> taken;
  for (int lane = 0; lane < lanes; ++lane) taken.push_back(std::min(lane, lanes_of(vector)));
  return b.CreateShuffleVector(vector, llvm::ConstantAggregateZero::get(vector->getType()), taken);
}

}  // namespace

LineValue SweepCode::load_element(SweepJob& job, const Instruction& instruction, const Line& line) {
  llvm::Value* base = job.base[static_cast<std::size_t>(instruction.operand)];
  const bool shared = instruction.operand == Operand::gamma && plan_.spec.weight == WeightForm::shared;
  if (shared && job.parts > plan_.parts_per_head) return access_.load_repeated(base, instruction.dtype, line, plan_.spec.head_size);
  return access_.load(base, instruction.dtype, line);
}

// A weight per head, for each part of the tile.
llvm::Value* SweepCode::load_per_head(SweepJob& job, const Instruction& instruction) {
  llvm::Value* address = job.base[static_cast<std::size_t>(instruction.operand)];
  if (job.parts == 1) return access_.load_scalar(address, instruction.dtype);
  const auto run = static_cast<int>(std::min<std::int64_t>(plan_.parts_per_head, job.parts));
  return repeat_lanes(b_, access_.load_scalars(address, instruction.dtype, job.parts / run), run);
}

void SweepCode::set_scalars(SweepJob& job, const std::map<ValueId, ScalarPlace>& places) {
  for (const auto& [id, place] : places) {
    if (job.parts == 1) {
      job.scalars[id] = b_.CreateLoad(b_.getFloatTy(), place.address);
      continue;
    }
    const auto run = static_cast<int>(std::min<std::int64_t>(place.parts, job.parts));
    job.scalars[id] = repeat_lanes(b_, access_.load_scalars(place.address, Dtype::f32, job.parts / run), run);
  }
  if (job.parts > 1) job.places = places;
}

// The scalar of one part in all lanes. From memory it takes no shuffle.
llvm::Value* SweepCode::splat_of_part(SweepJob& job, ValueId id, int part, int lanes) {
  llvm::Value*& splat = job.splats[id][{part, lanes}];
  if (splat != nullptr) return splat;
  llvm::Value* scalar = job.scalars.at(id);
  const auto place = job.places.find(id);
  if (place != job.places.end())
    scalar = b_.CreateLoad(b_.getFloatTy(), b_.address(place->second.address, b_.i64(part / place->second.parts), 4));
  else if (lanes_of(scalar) > 0)
    scalar = b_.CreateExtractElement(scalar, static_cast<std::uint64_t>(part));
  return splat = b_.splat(scalar, lanes);
}

llvm::Value* SweepCode::tile_argument(SweepJob& job, ValueId id, const Line& line, int vector) {
  llvm::Value* scalars = job.scalars.at(id);
  if (lanes_of(scalars) == 0) return splat_of_part(job, id, 0, line.lanes);
  std::vector<int> parts = parts_of_lanes(line, vector, plan_.part_elements);
  const int common = common_part(parts);
  if (common != kNoPart) return splat_of_part(job, id, common, line.lanes);
  for (int& part : parts) part = std::max(part, 0);  // lanes without an element take any number
  return b_.CreateShuffleVector(scalars, parts);
}

// Where parts are whole runs of lanes, a vector of products serves as it is; else each part of the tile has sums of its own, and
// lanes of other parts are left out.
void SweepCode::accumulate_tile(SweepJob& job, ValueId id, llvm::Value* a, llvm::Value* b, std::vector<int> parts) {
  a = zero_extend(b_, a, shape_.lanes);
  b = zero_extend(b_, b, shape_.lanes);
  parts.resize(static_cast<std::size_t>(shape_.lanes), kNoPart);
  auto add = [&](const std::vector<int>& key, llvm::Value* mask) {
    TileSums& sums = job.sums.tile[id][key];
    const auto most = static_cast<std::size_t>(shape_.accumulators);
    const std::size_t slot = sums.terms++ % most;
    if (slot == sums.accumulators.size()) {
      llvm::Value* product = b_.CreateFMul(a, b);
      sums.accumulators.push_back(mask == nullptr ? product : b_.CreateSelect(mask, product, b_.constant(0.0, shape_.lanes)));
      return;
    }
    llvm::Value*& sum = sums.accumulators[slot];
    llvm::Value* added = b_.fma(a, b, sum);
    sum = mask == nullptr ? added : b_.CreateSelect(mask, added, sum);
  };
  if (shape_.line_elements % plan_.part_elements == 0) {
    add(parts, nullptr);
    return;
  }
  const int first = *std::find_if(parts.begin(), parts.end(), [](int part) { return part != kNoPart; });
  const int last = *std::max_element(parts.begin(), parts.end());
  for (int part = first; part <= last; ++part) {
    std::vector<llvm::Constant*> bits;
    for (int lane : parts) bits.push_back(b_.getInt1(lane == part));
    const bool whole = std::all_of(parts.begin(), parts.end(), [&](int lane) { return lane == part; });
    add(std::vector<int>(parts.size(), part), whole ? nullptr : llvm::ConstantVector::get(bits));
  }
}

}  // namespace headnorm::host
