#include "tuner/cost_model/sectors.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace headnorm {
namespace {

constexpr int kWarp = 32;

// The place of a thread's part; see generator/backend/nvptx/thread.h.
struct Place {
  std::int64_t lane = 0, part = 0, row = 0;
  bool stores = true;
};

Place place_of(const Plan& plan, std::int64_t rank, std::int64_t thread) {
  const GpuPlan& shape = plan.gpu();
  const std::int64_t parts_per_tile = shape.groups_per_tile * plan.parts_per_group;
  const std::int64_t slots = parts_per_tile * shape.rows_per_tile;
  const std::int64_t slot = std::min(thread / shape.lanes, slots - 1);
  return {rank * shape.lanes + thread % shape.lanes, slot % parts_per_tile, slot / parts_per_tile, thread / shape.lanes < slots};
}

// What is read past the end of a part.
enum class Outside : std::uint8_t { start, none };

class Accesses {
 public:
  Accesses(const Plan& plan, Operand operand, Outside outside)
      : plan_(plan),
        operand_(operand),
        outside_(outside),
        size_(size_bytes(operand_dtype(plan.spec, operand))),
        access_(operand_access_bytes(plan, operand)),
        granule_(std::gcd(plan.part_elements, plan.gpu().vector_elements)) {}

  // Of all warps of a block, and of the other blocks of its cluster.
  std::int64_t sectors() const {
    const GpuPlan& shape = plan_.gpu();
    const bool per_head = operand_ == Operand::gamma && plan_.spec.weight == WeightForm::head;
    std::int64_t sum = 0;
    const std::int64_t warps = shape.block_threads / kWarp;
    for (std::int64_t warp = 0; warp < warps * shape.cluster; ++warp) {
      if (per_head) {
        sum += touched(warp, [&](const Place& place) { return place.part / plan_.parts_per_head * size_; });
        continue;
      }
      for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk) sum += chunk_sectors(warp, chunk);
    }
    return sum;
  }

 private:
  std::int64_t chunk_sectors(std::int64_t warp, std::int64_t chunk) const {
    const GpuPlan& shape = plan_.gpu();
    std::int64_t sum = 0;
    for (std::int64_t begin = 0; begin < shape.vector_elements * size_; begin += access_) {
      sum += touched(warp, [&](const Place& place) -> std::int64_t {
        const std::int64_t element = (chunk * shape.part_lanes() + place.lane) * shape.vector_elements + begin / size_;
        const bool inside = element < plan_.part_elements;
        if ((!inside && outside_ == Outside::none) || (is_output(operand_) && !place.stores)) return -1;
        // A load past the end reads as far from the start of its part as it lies behind what is inside or outside with it.
        return part_begin(place) + (inside ? element * size_ : begin % (granule_ * size_));
      });
    }
    return sum;
  }

  std::int64_t part_begin(const Place& place) const {
    if (is_row_operand(operand_)) return place.row * plan_.spec.width * size_ + place.part * plan_.part_elements * size_;
    const bool shared = operand_ == Operand::gamma && plan_.spec.weight == WeightForm::shared;
    return (shared ? place.part % plan_.parts_per_head : place.part) * plan_.part_elements * size_;
  }

  // Different sectors among the addresses of one access; below 0: the thread takes no part in it.
  template <class Address>
  std::int64_t touched(std::int64_t warp, const Address& address) const {
    const std::int64_t warps = plan_.gpu().block_threads / kWarp;
    std::array<std::int64_t, kWarp> sectors;
    std::size_t count = 0;
    for (int i = 0; i < kWarp; ++i) {
      const std::int64_t at = address(place_of(plan_, warp / warps, warp % warps * kWarp + i));
      if (at >= 0 && (count == 0 || sectors[count - 1] != at / kSectorBytes)) sectors[count++] = at / kSectorBytes;
    }
    const auto end = sectors.begin() + static_cast<std::ptrdiff_t>(count);
    std::sort(sectors.begin(), end);
    return std::unique(sectors.begin(), end) - sectors.begin();
  }

  const Plan& plan_;
  Operand operand_;
  Outside outside_;
  std::int64_t size_, access_;
  std::int64_t granule_;  // elements of a vector that lie inside the part or past its end together
};

}  // namespace

bool tail_is_alone(const Plan& plan) { return !plan.gpu().exact && (plan.gpu().chunks - 1) % plan.gpu().unroll == 0; }

bool read_when_stored(const Plan& plan, Operand weight) {
  return weight != Operand::beta && plan.gpu_schedule().weights == WeightLoad::after && tail_is_alone(plan);
}

Sectors count_sectors(const Plan& plan) {
  Sectors sectors;
  for (Operand operand : kOperands) {
    if (!has_operand(plan.spec, operand)) continue;
    const auto count = [&](Outside outside) { return Accesses(plan, operand, outside).sectors(); };
    if (!is_row_operand(operand)) {
      sectors.weights_read += count(read_when_stored(plan, operand) ? Outside::none : Outside::start);
    } else if (is_output(operand)) {
      sectors.written += count(Outside::none);
    } else {
      sectors.rows_read += count(Outside::start);
      if (plan.gpu_schedule().residency == Residency::reload)
        sectors.rows_read += count(tail_is_alone(plan) ? Outside::none : Outside::start);
    }
  }
  return sectors;
}

}  // namespace headnorm
