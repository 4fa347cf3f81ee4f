#include "emulator/machine/access.h"

#include <fmt/format.h>

#include <algorithm>

namespace headnorm::emulator {

using ptx::Space;

namespace {

bool has_unwritten(const Tag* tags, std::uint32_t bytes, std::uint64_t used) {
  std::uint32_t unwritten = 0;
  for (std::uint32_t i = 0; i < bytes; ++i) unwritten |= tags[i] == kNeverWritten ? 1 : 0;
  if (unwritten == 0 || used == ~std::uint64_t{0}) return unwritten != 0;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (tags[i] == kNeverWritten && (used >> std::min(i, 63u) & 1) != 0) return true;
  }
  return false;
}

// What a launch that may still run has written, or may still read.
std::string conflict_with_earlier(const Launch& launch, const Allocation& allocation, std::uint64_t at,
                                  const AccessRequest& request) {
  for (std::uint32_t i = 0; i < request.bytes; ++i) {
    const Tag tag = allocation.tags[at + i];
    if (tag >= launch.before.first_tag && tag < launch.first_tag) return "that a kernel launched before writes";
  }
  if (request.access == Access::read) return "";
  for (std::uint64_t sector = at / 32; sector <= (at + request.bytes - 1) / 32; ++sector) {
    const std::uint32_t reader = allocation.sector_loads[sector];
    if (reader >= launch.before.launch_number && reader < launch.memory.launch_number())
      return "that a kernel launched before reads";
  }
  return "";
}

std::uint8_t* access_global(const Context& context, const Operation& operation, std::uint32_t lane, const AccessRequest& request) {
  GlobalMemory& memory = context.launch.memory;
  Allocation* allocation = memory.find(request.address);
  const char* does = request.access == Access::read ? "reads" : "writes";
  if (allocation == nullptr && !memory.is_device_address(request.address)) {
    context.fail(
        operation, lane, Rule::device_memory, request.address,
        fmt::format("{} {} bytes at no address of the device: a host pointer, another device's or none", does, request.bytes));
    return nullptr;
  }
  if (allocation == nullptr || !allocation->contains(request.address, request.bytes)) {
    context.fail(operation, lane, Rule::in_bounds, request.address,
                 fmt::format("{} {}", does, memory.explain(request.address, request.bytes)));
    return nullptr;
  }
  const std::uint64_t at = request.address - allocation->base;
  if ((context.warp.settled >> lane & 1) == 0) {
    if (const std::string conflict = conflict_with_earlier(context.launch, *allocation, at, request); !conflict.empty()) {
      context.fail(operation, lane, Rule::launch_order, request.address,
                   fmt::format("{} {} bytes {}, ahead of griddepcontrol.wait", does, request.bytes, conflict));
      return nullptr;
    }
  }
  Tag* tags = allocation->tags + at;
  if (request.access == Access::read || request.is_atomic) {
    if (context.launch.options.checks.initialised_memory == Check::on && has_unwritten(tags, request.bytes, request.used)) {
      context.fail(operation, lane, Rule::initialised, request.address,
                   fmt::format("reads {} bytes of global memory that nothing has written", request.bytes));
      return nullptr;
    }
    return allocation->data + at;
  }
  if (allocation->is_constant) {
    context.fail(operation, lane, Rule::in_bounds, request.address, "writes constant memory");
    return nullptr;
  }
  const Tag mine = context.launch.first_tag + static_cast<Tag>(context.block.linear);
  for (std::uint32_t i = 0; i < request.bytes; ++i) {
    if (tags[i] >= context.launch.first_tag && tags[i] != mine && context.launch.options.checks.block_overlap == Check::on) {
      context.fail(operation, lane, Rule::block_overlap, request.address,
                   fmt::format("writes {} bytes that block number {} of the grid has written too", request.bytes,
                               tags[i] - context.launch.first_tag));
      return nullptr;
    }
    tags[i] = mine;
  }
  return allocation->data + at;
}

std::uint8_t* access_shared(const Context& context, const Operation& operation, std::uint32_t lane, const AccessRequest& request) {
  const SharedPlace place = shared_place(context, request.address);
  SharedError error{SharedError::Kind::outside};
  const Checks& checks = context.launch.options.checks;
  if (place.block != nullptr && place.block->alive == 0) {
    context.fail(operation, lane, Rule::in_bounds, request.address,
                 fmt::format("touches shared memory of block {} of the cluster, which has ended", place.block->rank));
    return nullptr;
  }
  if (place.block != nullptr && place.block->shared.contains(place.offset, request.bytes)) {
    SharedMemory& shared = place.block->shared;
    error = {};
    if (request.access == Access::read || request.is_atomic)
      error = shared.note_read(context.cluster.order, context.thread(lane), place.offset, request.bytes, request.strength,
                               request.used);
    if (request.access == Access::write && error.kind == SharedError::Kind::none)
      error = shared.note_write(context.cluster.order, context.thread(lane), place.offset, request.bytes, request.strength);
    const bool is_ignored = (error.kind == SharedError::Kind::race && checks.races == Check::off) ||
                            (error.kind == SharedError::Kind::unwritten && checks.initialised_memory == Check::off);
    if (error.kind == SharedError::Kind::none || is_ignored) return shared.data(place.offset);
  }
  const char* does = request.access == Access::read ? "reads" : "writes";
  context.fail(operation, lane, rule_of(error), request.address,
               fmt::format("{} {}", does, explain(context, error, request.bytes)));
  return nullptr;
}

std::uint8_t* access_local(const Context& context, const Operation& operation, std::uint32_t lane, const AccessRequest& request) {
  const std::uint64_t size = context.launch.kernel.local_bytes;
  const char* does = request.access == Access::read ? "reads" : "writes";
  if (request.address >= size || size - request.address < request.bytes) {
    context.fail(operation, lane, Rule::in_bounds, request.address,
                 fmt::format("{} {} bytes outside of local memory", does, request.bytes));
    return nullptr;
  }
  const std::uint64_t at = lane * size + request.address;
  std::uint8_t* written = context.warp.local_written.data() + at;
  if (request.access == Access::write) {
    std::fill_n(written, request.bytes, std::uint8_t{1});
  } else if (context.launch.options.checks.initialised_memory == Check::on) {
    for (std::uint32_t i = 0; i < request.bytes; ++i) {
      if (written[i] != 0 || (request.used >> std::min(i, 63u) & 1) == 0) continue;
      context.fail(operation, lane, Rule::initialised, request.address,
                   fmt::format("reads {} bytes of local memory that nothing has written", request.bytes));
      return nullptr;
    }
  }
  return context.warp.local.data() + at;
}

std::uint8_t* access_param(const Context& context, const Operation& operation, std::uint32_t lane, const AccessRequest& request) {
  for (const Parameter& parameter : context.launch.kernel.parameters) {
    const bool is_inside =
        request.address >= parameter.offset && request.address + request.bytes <= parameter.offset + parameter.bytes;
    if (is_inside && request.access == Access::read)
      return const_cast<std::uint8_t*>(context.launch.parameters.data()) + request.address;  // only read
  }
  const char* what =
      request.access == Access::read ? "reads {} bytes that are in no parameter" : "writes {} bytes of the parameters";
  context.fail(operation, lane, Rule::in_bounds, request.address, fmt::format(fmt::runtime(what), request.bytes));
  return nullptr;
}

// Wavefronts for lanes [first, last): the most words that one bank has to give.
std::uint32_t wavefronts(const std::uint64_t (&addresses)[kLanes], std::uint32_t bytes, std::uint32_t mask, std::uint32_t first,
                         std::uint32_t last) {
  std::uint64_t words[kLanes][kLanes];
  std::uint8_t counts[kLanes] = {};
  std::uint32_t most = 0;
  for (std::uint32_t lane = first; lane < last; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (std::uint64_t word = addresses[lane] / 4; word <= (addresses[lane] + bytes - 1) / 4; ++word) {
      const std::size_t bank = word % kLanes;
      std::uint64_t* known = words[bank];
      if (std::find(known, known + counts[bank], word) != known + counts[bank]) continue;
      known[counts[bank]++] = word;
      most = std::max<std::uint32_t>(most, counts[bank]);
    }
  }
  return most;
}

void count_shared(const Context& context, const std::uint64_t (&addresses)[kLanes], std::uint32_t bytes, std::uint32_t mask) {
  const std::uint32_t together = std::min(kLanes, 128 / std::max(bytes, 4u));
  for (std::uint32_t first = 0; first < kLanes; first += together) {
    const std::uint32_t taken = wavefronts(addresses, bytes, mask, first, first + together);
    if (taken == 0) continue;
    ++context.launch.counters.shared_accesses;
    context.launch.counters.shared_bank_conflicts += taken - 1;
  }
}

void count_global(const Context& context, const std::uint64_t (&addresses)[kLanes], std::uint32_t bytes, std::uint32_t mask,
                  Access access) {
  Counters::Global& counters = access == Access::read ? context.launch.counters.loads : context.launch.counters.stores;
  std::uint64_t sectors[2 * kLanes];
  std::size_t count = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    counters.requested_bytes += bytes;
    for (std::uint64_t sector = addresses[lane] / 32; sector <= (addresses[lane] + bytes - 1) / 32; ++sector) {
      if (count > 0 && sectors[count - 1] == sector) continue;
      if (std::find(sectors, sectors + count, sector) != sectors + count) continue;
      sectors[count++] = sector;
      count_sectors(context.launch, sector * 32, 1, access);
    }
  }
  counters.sectors += count;
}

}  // namespace

SharedPlace shared_place(const Context& context, std::uint64_t address) {
  const std::uint64_t rank = address >> kBlockShift, offset = address & ((std::uint64_t{1} << kBlockShift) - 1);
  if (rank == 0) return {&context.block, offset};
  if (rank > context.cluster.blocks.size()) return {};
  return {&context.cluster.blocks[rank - 1], offset};
}

Space resolve_generic(std::uint64_t& address) {
  const std::uint64_t window = address & ~(kWindowBytes - 1);
  if (window == kSharedWindow || window == kLocalWindow || window == kParamWindow) address -= window;
  if (window == kSharedWindow) return Space::shared;
  if (window == kLocalWindow) return Space::local;
  return window == kParamWindow ? Space::param : Space::global;
}

std::string explain(const Context& context, const SharedError& error, std::uint32_t bytes) {
  switch (error.kind) {
    case SharedError::Kind::outside:
      return fmt::format("{} bytes outside of every array in shared memory", bytes);
    case SharedError::Kind::unwritten:
      return fmt::format("{} bytes of shared memory that nothing has written", bytes);
    case SharedError::Kind::arriving:
      return fmt::format("{} bytes of shared memory that an asynchronous copy is still writing", bytes);
    case SharedError::Kind::leaving:
      return fmt::format("{} bytes of shared memory that an asynchronous copy is still reading", bytes);
    case SharedError::Kind::barrier:
      return fmt::format("{} bytes of shared memory that are an mbarrier", bytes);
    case SharedError::Kind::race:
    case SharedError::Kind::none:
      break;
  }
  if (error.other_thread == context.cluster.order.engine())
    return fmt::format("{} bytes of shared memory that an asynchronous copy wrote, without having waited for it", bytes);
  return fmt::format("{} bytes of shared memory that thread {} touched too, with no barrier between", bytes,
                     thread_name(context.launch, context.cluster, error.other_thread));
}

Rule rule_of(const SharedError& error) {
  switch (error.kind) {
    case SharedError::Kind::unwritten:
      return Rule::initialised;
    case SharedError::Kind::arriving:
    case SharedError::Kind::leaving:
      return Rule::async_copy;
    case SharedError::Kind::race:
      return Rule::race;
    case SharedError::Kind::barrier:
      return Rule::barrier;
    case SharedError::Kind::outside:
    case SharedError::Kind::none:
      break;
  }
  return Rule::in_bounds;
}

std::uint8_t* access_bytes(const Context& context, const Operation& operation, std::uint32_t lane, const AccessRequest& wanted) {
  AccessRequest request = wanted;
  if (request.space == Space::generic) request.space = resolve_generic(request.address);
  if (request.address % request.bytes != 0) {
    context.fail(operation, lane, Rule::alignment, wanted.address,
                 fmt::format("the address is not a multiple of {}, the bytes of the access", request.bytes));
    return nullptr;
  }
  switch (request.space) {
    case Space::shared:
      return access_shared(context, operation, lane, request);
    case Space::local:
      return access_local(context, operation, lane, request);
    case Space::param:
      return access_param(context, operation, lane, request);
    default:
      return access_global(context, operation, lane, request);
  }
}

void count_sectors(Launch& launch, std::uint64_t address, std::uint64_t bytes, Access access) {
  Allocation* allocation = launch.memory.find(address);
  if (allocation == nullptr) return;
  Counters::Global& counters = access == Access::read ? launch.counters.loads : launch.counters.stores;
  std::uint32_t* marks = access == Access::read ? allocation->sector_loads : allocation->sector_stores;
  const std::uint64_t first = address - allocation->base, last = std::min(first + bytes, allocation->size);
  for (std::uint64_t sector = first / 32; sector * 32 < last; ++sector) {
    if (marks[sector] == launch.memory.launch_number()) continue;
    marks[sector] = launch.memory.launch_number();
    counters.footprint_bytes += std::min<std::uint64_t>(32, allocation->size - sector * 32);
  }
}

void count_access(const Context& context, Space space, const std::uint64_t (&addresses)[kLanes], std::uint32_t bytes,
                  std::uint32_t mask, Access access) {
  if (space == Space::generic) {
    std::uint64_t first = addresses[first_lane(mask)];
    space = resolve_generic(first);
  }
  if (space == Space::shared) count_shared(context, addresses, bytes, mask);
  if (space == Space::global || space == Space::constant) count_global(context, addresses, bytes, mask, access);
}

}  // namespace headnorm::emulator
