#include "emulator/machine/cluster_setup.h"

#include <fmt/format.h>

#include <algorithm>

namespace headnorm::emulator {
namespace {

constexpr std::uint64_t kSharedTail = 64;  // room past the last array, all of it outside

Dim3 unravel(std::uint64_t linear, const Dim3& extent) {
  return {static_cast<std::uint32_t>(linear % extent.x), static_cast<std::uint32_t>(linear / extent.x % extent.y),
          static_cast<std::uint32_t>(linear / extent.x / extent.y)};
}

std::uint64_t ravel(const Dim3& index, const Dim3& extent) {
  return index.x + std::uint64_t{extent.x} * (index.y + std::uint64_t{extent.y} * index.z);
}

Dim3 clusters_in(const LaunchShape& shape) {
  return {shape.grid.x / shape.cluster.x, shape.grid.y / shape.cluster.y, shape.grid.z / shape.cluster.z};
}

// The 32 values of a special register in one warp.
class SpecialValues {
 public:
  SpecialValues(const Launch& launch, const Block& block, const Warp& warp) : launch_(launch), block_(block), warp_(warp) {}

  std::uint64_t operator()(const std::string& name, std::uint32_t lane) const {
    if (name.starts_with("%tid.")) return part(thread_index(launch_, warp_.number * kLanes + lane), name);
    if (name.starts_with("%ntid.")) return part(launch_.shape.block, name);
    if (name.starts_with("%ctaid.")) return part(block_.index, name);
    if (name.starts_with("%nctaid.")) return part(launch_.shape.grid, name);
    if (name.starts_with("%clusterid.")) return part(cluster_index(), name);
    if (name.starts_with("%nclusterid.")) return part(clusters_in(launch_.shape), name);
    if (name.starts_with("%cluster_ctaid.")) return part(unravel(block_.rank, launch_.shape.cluster), name);
    if (name.starts_with("%cluster_nctaid.")) return part(launch_.shape.cluster, name);
    if (name.starts_with("%lanemask_")) return lane_mask(name, lane);
    return single(name, lane);
  }

 private:
  static std::uint64_t part(const Dim3& value, const std::string& name) {
    return name.ends_with(".x") ? value.x : name.ends_with(".y") ? value.y : value.z;
  }

  Dim3 cluster_index() const {
    const Dim3& c = launch_.shape.cluster;
    return {block_.index.x / c.x, block_.index.y / c.y, block_.index.z / c.z};
  }

  static std::uint64_t lane_mask(const std::string& name, std::uint32_t lane) {
    const std::uint32_t equal = std::uint32_t{1} << lane, below = equal - 1;
    if (name.ends_with("_eq")) return equal;
    if (name.ends_with("_lt")) return below;
    if (name.ends_with("_le")) return below | equal;
    return name.ends_with("_gt") ? ~(below | equal) : ~below;
  }

  std::uint64_t single(const std::string& name, std::uint32_t lane) const {
    if (name == "%laneid") return lane;
    if (name == "%warpid") return warp_.number;
    if (name == "%nwarpid") return launch_.model.threads_per_multiprocessor / kLanes;
    if (name == "%smid") return block_.linear % static_cast<std::uint64_t>(launch_.model.multiprocessors);
    if (name == "%nsmid") return static_cast<std::uint64_t>(launch_.model.multiprocessors);
    if (name == "%gridid") return launch_.memory.launch_number();
    if (name == "%cluster_ctarank") return block_.rank;
    if (name == "%cluster_nctarank") return launch_.shape.cluster.count();
    if (name == "%is_explicit_cluster") return launch_.shape.cluster.count() > 1 ? kFullMask : 0;
    if (name == "%dynamic_smem_size") return launch_.shape.dynamic_shared_bytes;
    if (name == "%total_smem_size" || name == "%aggr_smem_size")
      return launch_.kernel.shared_bytes + launch_.shape.dynamic_shared_bytes;
    return kLanes;  // WARP_SZ
  }

  const Launch& launch_;
  const Block& block_;
  const Warp& warp_;
};

void set_lanes(Warp& warp, Slot slot, bool is_wide, auto value) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::uint64_t bits = value(lane);
    if (is_wide) {
      std::memcpy(warp.slot(slot) + 8 * lane, &bits, 8);
    } else {
      std::memcpy(warp.slot(slot) + 4 * lane, &bits, 4);
    }
  }
  warp.defined[slot] = kFullMask;
}

// The same in all lanes, and other in every block.
bool is_of_block(const std::string& name) {
  return name.starts_with("%ctaid.") || name.starts_with("%clusterid.") || name.starts_with("%cluster_ctaid.") ||
         name == "%cluster_ctarank" || name == "%smid";
}

void fill_constant_specials(const Launch& launch, const Block& block, Warp& warp) {
  const SpecialValues values(launch, block, warp);
  for (const SpecialSlot& special : launch.kernel.specials)
    set_lanes(warp, special.slot, special.name == "%gridid", [&](std::uint32_t lane) { return values(special.name, lane); });
}

void fill_block_specials(const Launch& launch, const Block& block, Warp& warp) {
  const SpecialValues values(launch, block, warp);
  for (const SpecialSlot& special : launch.kernel.specials) {
    if (!is_of_block(special.name)) continue;
    const std::uint64_t value = values(special.name, 0);
    set_lanes(warp, special.slot, false, [&](std::uint32_t) { return value; });
  }
}

void reset_block(const Launch& launch, Block& block) {
  const Kernel& kernel = launch.kernel;
  block.shared.reset(kernel.dynamic_shared_at + launch.shape.dynamic_shared_bytes + kSharedTail);
  for (const SharedArray& array : kernel.shared_arrays) block.shared.add_array(array.offset, array.bytes);
  block.shared.add_array(kernel.dynamic_shared_at, launch.shape.dynamic_shared_bytes);
  block.barriers = {};
  block.mbarriers.clear();
  block.alive = static_cast<std::uint32_t>(launch.shape.block.count());
}

void reset_warp(const Launch& launch, const Block& block, Warp& warp) {
  std::fill_n(warp.defined.begin(), launch.kernel.source.registers.size(), 0);
  if (launch.options.checks.initialised_registers == Check::off) std::fill(warp.defined.begin(), warp.defined.end(), kFullMask);
  std::fill(warp.local_written.begin(), warp.local_written.end(), std::uint8_t{0});
  warp.alive = warp.lanes;
  warp.groups.assign(1, {Group::State::ready, 0, warp.lanes, 0});
  warp.copies.clear();
  warp.bulk_copies.clear();
  warp.settled = launch.before.launch_number == 0 ? kFullMask : 0;
  warp.cluster_arrived = 0;
  warp.cluster_barrier = 0;
  fill_block_specials(launch, block, warp);
}

Warp make_warp(const Launch& launch, std::uint32_t block, std::uint32_t number, std::uint32_t warps_per_block) {
  const Kernel& kernel = launch.kernel;
  const std::uint64_t threads = launch.shape.block.count(), left = threads - std::uint64_t{number} * kLanes;
  Warp warp;
  warp.number = number;
  warp.block = block;
  warp.first_thread = (block * warps_per_block + number) * kLanes;
  warp.lanes = left >= kLanes ? kFullMask : (std::uint32_t{1} << left) - 1;
  warp.registers.assign(kernel.slot_count * kSlotBytes / sizeof(std::uint64_t), 0);
  warp.defined.assign(kernel.slot_count, 0);
  warp.local.assign(kLanes * kernel.local_bytes, 0xcd);
  warp.local_written.assign(warp.local.size(), 0);
  for (const ConstantSlot& constant : kernel.constants)
    set_lanes(warp, constant.slot, constant.is_wide, [&](std::uint32_t) { return constant.value; });
  return warp;
}

}  // namespace

Dim3 thread_index(const Launch& launch, std::uint32_t thread_of_block) { return unravel(thread_of_block, launch.shape.block); }

void make_cluster(const Launch& launch, Cluster& cluster) {
  const auto blocks = static_cast<std::uint32_t>(launch.shape.cluster.count());
  cluster.warps_per_block = static_cast<std::uint32_t>((launch.shape.block.count() + kLanes - 1) / kLanes);
  cluster.blocks.resize(blocks);
  for (std::uint32_t block = 0; block < blocks; ++block) {
    cluster.blocks[block].rank = block;
    for (std::uint32_t warp = 0; warp < cluster.warps_per_block; ++warp) {
      cluster.warps.push_back(make_warp(launch, block, warp, cluster.warps_per_block));
      fill_constant_specials(launch, cluster.blocks[block], cluster.warps.back());
    }
  }
}

void begin_cluster(Launch& launch, Cluster& cluster, std::uint64_t number) {
  const Dim3& extent = launch.shape.cluster;
  const Dim3 index = unravel(number, clusters_in(launch.shape));
  for (Block& block : cluster.blocks) {
    const Dim3 inside = unravel(block.rank, extent);
    block.index = {index.x * extent.x + inside.x, index.y * extent.y + inside.y, index.z * extent.z + inside.z};
    block.linear = ravel(block.index, launch.shape.grid);
    reset_block(launch, block);
  }
  for (Warp& warp : cluster.warps) reset_warp(launch, cluster.blocks[warp.block], warp);
  cluster.order.reset(static_cast<std::uint32_t>(cluster.blocks.size()), cluster.warps_per_block * kLanes);
  cluster.arrived = 0;
  cluster.barriers = 0;
}

std::string thread_name(const Launch& launch, const Cluster& cluster, std::uint32_t thread) {
  const std::uint32_t padded = cluster.warps_per_block * kLanes, block = thread / padded;
  const Dim3 index = thread_index(launch, thread % padded);
  std::string name = fmt::format("({},{},{})", index.x, index.y, index.z);
  if (cluster.blocks.size() == 1 || block >= cluster.blocks.size()) return name;
  const Dim3& place = cluster.blocks[block].index;
  return name + fmt::format(" of block ({},{},{})", place.x, place.y, place.z);
}

Step Context::fail(const Operation& operation, std::uint32_t lane, Rule rule, std::optional<std::uint64_t> address,
                   std::string what) const {
  if (launch.fault) return Step::fault;
  const ptx::Instruction& source = launch.kernel.source.code[operation.source];
  launch.fault = Fault{rule,        launch.kernel.source.name,
                       source.text, source.line,
                       block.index, thread_index(launch, warp.number * kLanes + lane),
                       address,     std::move(what)};
  return Step::fault;
}

}  // namespace headnorm::emulator
