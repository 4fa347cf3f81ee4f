// cp.async and cp.async.bulk: decoding and running.
//
// A copy takes its bytes when it is issued and lets them arrive as late as it may: when its thread waits for its group, or somebody
// asks its mbarrier. Until then its target must not be touched.
#include <fmt/format.h>

#include "emulator/machine/async.h"
#include "emulator/machine/decoding.h"
#include "emulator/machine/mbarrier.h"
#include "emulator/machine/memory_forms.h"

namespace headnorm::emulator {
namespace {

constexpr std::uint32_t kChunk = 16;  // bytes in which a bulk copy is checked

Step fail_shared(const Context& context, const Operation& operation, std::uint32_t lane, const SharedError& error,
                 std::uint64_t address, std::uint32_t bytes, const char* does) {
  return context.fail(operation, lane, rule_of(error), address,
                      fmt::format("an asynchronous copy {} {}", does, explain(context, error, bytes)));
}

// Claims the target of a copy: nobody may touch it from now until it has arrived.
Step claim(const Context& context, const Operation& operation, std::uint32_t lane, std::uint64_t address, std::uint32_t bytes,
           AsyncCopy& copy) {
  const SharedPlace place = shared_place(context, address);
  if (place.block == nullptr || !place.block->shared.contains(place.offset, bytes))
    return fail_shared(context, operation, lane, {SharedError::Kind::outside}, address, bytes, "writes");
  const SharedError error =
      place.block->shared.note_write(context.cluster.order, context.thread(lane), place.offset, bytes, Strength::weak);
  const bool is_ignored = error.kind == SharedError::Kind::race && context.launch.options.checks.races == Check::off;
  if (error.kind != SharedError::Kind::none && !is_ignored)
    return fail_shared(context, operation, lane, error, address, bytes, "writes");
  place.block->shared.set_state(place.offset, bytes, ByteState::arriving);
  copy = {&operation, context.thread(lane), place.block->rank, place.offset, false, {}};
  return Step::advance;
}

// As written by the thread that waits for it.
void land(const Context& context, const AsyncCopy& copy) {
  SharedMemory& shared = context.cluster.blocks[copy.block].shared;
  shared.set_state(copy.offset, copy.data.size(), ByteState::written);
  shared.note_write(context.cluster.order, copy.thread, copy.offset, copy.data.size(), Strength::weak);
  std::memcpy(shared.data(copy.offset), copy.data.data(), copy.data.size());
  ++context.launch.progress;
}

// ---- cp.async: addresses[0] to, [1] from; element_bytes; from[0] bytes of the source, or kNoSlot; from[1] predicate "take
// nothing" ----
Step run_copy(Context& context, const Operation& operation, std::uint32_t mask) {
  const std::uint32_t bytes = operation.element_bytes;
  std::uint64_t addresses[kLanes], targets[kLanes];
  lane_addresses(context, operation.addresses[0], targets);
  lane_addresses(context, operation.addresses[1], addresses);
  std::uint32_t reading = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    std::uint32_t taken = operation.from[0] == kNoSlot ? bytes : context.word(operation.from[0], lane);
    if (operation.from[1] != kNoSlot && ((context.mask(operation.from[1]) >> lane & 1) != 0) != (operation.options[1] != 0))
      taken = 0;
    if (taken > bytes)
      return context.fail(operation, lane, Rule::async_copy, addresses[lane],
                          fmt::format("takes {} bytes for a copy of {}", taken, bytes));
    if (targets[lane] % bytes != 0)
      return context.fail(operation, lane, Rule::alignment, targets[lane],
                          fmt::format("the target is not a multiple of {}, the bytes of the copy", bytes));
    AsyncCopy copy;
    if (claim(context, operation, lane, targets[lane], bytes, copy) == Step::fault) return Step::fault;
    copy.data.assign(bytes, 0);
    if (taken != 0) {
      AccessRequest request{Space::global, addresses[lane], bytes};
      if (taken < bytes) request.used = (std::uint64_t{1} << taken) - 1;
      const std::uint8_t* from = access_bytes(context, operation, lane, request);
      if (from == nullptr) return Step::fault;
      std::memcpy(copy.data.data(), from, taken);
      reading |= std::uint32_t{1} << lane;
    }
    context.warp.copies[lane].open.push_back(std::move(copy));
  }
  if (reading != 0) count_access(context, Space::global, addresses, bytes, reading, Access::read);
  return Step::advance;
}

void commit(AsyncGroups& groups) { groups.groups.push_back(std::exchange(groups.open, {})); }

Step run_commit(Context& context, const Operation&, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) commit(context.warp.copies[lane]);
  }
  return Step::advance;
}

// immediate: groups that may stay on their way.
Step run_wait_group(Context& context, const Operation& operation, std::uint32_t mask) {
  for (auto& [lane, groups] : context.warp.copies) {
    if ((mask >> lane & 1) == 0) continue;
    if (operation.options[1] != 0) commit(groups);  // wait_all
    while (groups.groups.size() > operation.immediate) {
      for (const AsyncCopy& copy : groups.groups.front()) land(context, copy);
      groups.groups.erase(groups.groups.begin());
    }
  }
  return Step::advance;
}

// cp.async.mbarrier.arrive: an arrival that comes when the thread's copies have. options[1]: .noinc
Step run_arrive_later(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    std::uint64_t address = lane_address(context, operation.addresses[0], lane);
    if (operation.space == Space::generic) resolve_generic(address);
    const MbarrierPlace found = find_mbarrier(context, operation, lane, address);
    if (found.mbarrier == nullptr) return Step::fault;
    AsyncGroups& groups = context.warp.copies[lane];
    commit(groups);
    for (std::vector<AsyncCopy>& group : groups.groups) {
      for (AsyncCopy& copy : group) found.mbarrier->copies.push_back(std::move(copy));
    }
    groups.groups.clear();
    if (operation.options[1] == 0) ++found.mbarrier->pending;
    ++found.mbarrier->late_arrivals;
    context.cluster.order.release(context.warp.first_thread, std::uint32_t{1} << lane, found.mbarrier->clocks);
  }
  ++context.launch.progress;
  return Step::advance;
}

// ---- bulk copies: addresses[0] to, [1] from, [2] mbarrier; from[0] bytes; from[1] blocks of a multicast ----
Step check_bulk(const Context& context, const Operation& operation, std::uint32_t lane, std::uint64_t to, std::uint64_t from,
                std::uint32_t bytes) {
  if (bytes % kChunk != 0 || bytes == 0)
    return context.fail(operation, lane, Rule::async_copy, std::nullopt,
                        fmt::format("{} bytes: a bulk copy takes a multiple of {}", bytes, kChunk));
  if (to % kChunk == 0 && from % kChunk == 0) return Step::advance;
  return context.fail(operation, lane, Rule::alignment, to % kChunk != 0 ? to : from,
                      fmt::format("an address of a bulk copy is not a multiple of {}", kChunk));
}

// Bytes of global or shared memory, checked; false after a fault.
bool read_bytes(const Context& context, const Operation& operation, std::uint32_t lane, Space space, std::uint64_t address,
                std::uint32_t bytes, std::vector<std::uint8_t>& data) {
  for (std::uint32_t at = 0; at < bytes; at += kChunk) {
    const std::uint8_t* from = access_bytes(context, operation, lane, {space, address + at, kChunk});
    if (from == nullptr) return false;
    data.insert(data.end(), from, from + kChunk);
  }
  if (space == Space::global) {
    context.launch.counters.loads.requested_bytes += bytes;
    context.launch.counters.loads.sectors += bytes / 32;
    count_sectors(context.launch, address, bytes, Access::read);
  }
  return true;
}

Step send(const Context& context, const Operation& operation, std::uint32_t lane, std::uint64_t to, std::uint64_t mbarrier,
          const std::vector<std::uint8_t>& data) {
  AsyncCopy copy;
  if (claim(context, operation, lane, to, static_cast<std::uint32_t>(data.size()), copy) == Step::fault) return Step::fault;
  const MbarrierPlace found = find_mbarrier(context, operation, lane, mbarrier);
  if (found.mbarrier == nullptr) return Step::fault;
  if (!found.mbarrier->is_shown)
    return context.fail(operation, lane, Rule::async_copy, mbarrier,
                        "ends at an mbarrier that the copy engine need not see: its thread has had no fence.proxy.async or "
                        "fence.mbarrier_init since its init");
  copy.counts_bytes = true;
  copy.data = data;
  found.mbarrier->copies.push_back(std::move(copy));
  ++context.launch.progress;
  return Step::advance;
}

// To shared memory, ending at an mbarrier.
Step run_bulk_in(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint64_t to = lane_address(context, operation.addresses[0], lane),
                        from = lane_address(context, operation.addresses[1], lane);
    const std::uint64_t mbarrier = lane_address(context, operation.addresses[2], lane);
    const std::uint32_t bytes = context.word(operation.from[0], lane);
    if (check_bulk(context, operation, lane, to, from, bytes) == Step::fault) return Step::fault;
    std::vector<std::uint8_t> data;
    if (!read_bytes(context, operation, lane, operation.space, from, bytes, data)) return Step::fault;
    if (operation.from[1] == kNoSlot) {
      if (send(context, operation, lane, to, mbarrier, data) == Step::fault) return Step::fault;
      continue;
    }
    const std::uint32_t blocks = context.word(operation.from[1], lane);
    const std::uint64_t offset = (std::uint64_t{1} << kBlockShift) - 1;
    for (std::uint64_t rank = 0; rank < 16; ++rank) {
      if ((blocks >> rank & 1) == 0) continue;
      const std::uint64_t block = (rank + 1) << kBlockShift;
      if (send(context, operation, lane, block | (to & offset), block | (mbarrier & offset), data) == Step::fault)
        return Step::fault;
    }
  }
  return Step::advance;
}

// From shared to global memory, ending with a bulk group. What arrives is as it was when the copy was issued: nobody may change it
// before.
Step run_bulk_out(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint64_t to = lane_address(context, operation.addresses[0], lane),
                        from = lane_address(context, operation.addresses[1], lane);
    const std::uint32_t bytes = context.word(operation.from[0], lane);
    if (check_bulk(context, operation, lane, to, from, bytes) == Step::fault) return Step::fault;
    std::vector<std::uint8_t> data;
    if (!read_bytes(context, operation, lane, Space::shared, from, bytes, data)) return Step::fault;
    for (std::uint32_t at = 0; at < bytes; at += kChunk) {
      std::uint8_t* target = access_bytes(context, operation, lane, {Space::global, to + at, kChunk, Access::write});
      if (target == nullptr) return Step::fault;
      std::memcpy(target, data.data() + at, kChunk);
    }
    context.launch.counters.stores.requested_bytes += bytes;
    context.launch.counters.stores.sectors += bytes / 32;
    count_sectors(context.launch, to, bytes, Access::write);
    const SharedPlace place = shared_place(context, from);
    place.block->shared.set_state(place.offset, bytes, ByteState::leaving);
    context.warp.bulk_copies[lane].open.push_back(
        {&operation, context.thread(lane), place.block->rank, place.offset, false, std::move(data)});
  }
  return Step::advance;
}

Step run_bulk_commit(Context& context, const Operation&, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) commit(context.warp.bulk_copies[lane]);
  }
  return Step::advance;
}

Step run_bulk_wait(Context& context, const Operation& operation, std::uint32_t mask) {
  for (auto& [lane, groups] : context.warp.bulk_copies) {
    if ((mask >> lane & 1) == 0) continue;
    while (groups.groups.size() > operation.immediate) {
      for (const AsyncCopy& copy : groups.groups.front())
        context.cluster.blocks[copy.block].shared.set_state(copy.offset, copy.data.size(), ByteState::written);
      groups.groups.erase(groups.groups.begin());
    }
  }
  return Step::advance;
}

Step run_nothing(Context&, const Operation&, std::uint32_t) { return Step::advance; }

void decode_wait(Decoding& d, Run run) {
  d.expect_operands(1, 1);
  d.op.immediate = d.integer(0);
  d.op.run = run;
}

void decode_bulk_copy(Decoding& d) {
  const std::string_view to = d.take_next(), from = d.take_next();
  const bool is_to_global = to == "global";
  const bool is_known =
      is_to_global ? from == "shared::cta" : to.starts_with("shared::c") && (from == "global" || from == "shared::cta");
  if (!is_known) return d.fail("the spaces of a bulk copy are not supported");
  const std::size_t hints = d.take("L2::cache_hint") ? 1 : 0, multicast = d.take("multicast::cluster") ? 1 : 0;
  const std::size_t plain = is_to_global ? 3 : 4;
  d.expect_operands(plain + multicast + hints, plain + multicast + hints);
  d.address(0, 0);
  d.address(1, 1);
  d.op.from[0] = d.read(2, Type::u32);
  if (hints != 0) d.read(plain + multicast, Type::b64);
  if (is_to_global) {
    if (!d.take("bulk_group")) d.fail("a bulk copy to global memory ends with .bulk_group");
    d.op.run = &run_bulk_out;
    return;
  }
  if (!d.take("mbarrier::complete_tx::bytes")) d.fail("a bulk copy to shared memory ends with .mbarrier::complete_tx::bytes");
  d.address(3, 2);
  if (multicast != 0) d.op.from[1] = d.read(4, Type::u16);
  d.op.space = from == "global" ? Space::global : Space::shared;
  d.op.run = &run_bulk_in;
}

void decode_bulk(Decoding& d) {
  if (d.take("commit_group")) {
    d.expect_operands(0, 0);
    d.op.run = &run_bulk_commit;
  } else if (d.take("wait_group")) {
    d.take("read");
    decode_wait(d, &run_bulk_wait);
  } else if (d.take("prefetch")) {
    d.take_any({"L2"});
    d.take_any({"global"});
    const std::size_t hints = d.take("L2::cache_hint") ? 1 : 0;
    d.expect_operands(2 + hints, 2 + hints);
    d.address(0, 0);
    d.read(1, Type::u32);
    d.op.run = &run_nothing;
  } else {
    decode_bulk_copy(d);
  }
}

void decode_copy(Decoding& d) {
  const bool is_large = d.take("cg");
  if (!is_large && !d.take("ca")) return d.fail("cp.async is .ca or .cg");
  if (d.take_any({"shared", "shared::cta"}).empty() || !d.take("global")) return d.fail("cp.async copies from .global to .shared");
  d.take_any({"L2::64B", "L2::128B", "L2::256B"});
  const std::size_t hints = d.take("L2::cache_hint") ? 1 : 0;
  d.expect_operands(3 + hints, 4 + hints);
  d.address(0, 0);
  d.address(1, 1);
  const std::uint64_t bytes = d.integer(2);
  if (bytes != 16 && (is_large || (bytes != 4 && bytes != 8))) return d.fail("cp.async.ca copies 4, 8 or 16 bytes, cp.async.cg 16");
  d.op.element_bytes = static_cast<std::uint8_t>(bytes);
  if (hints != 0) d.read(d.operand_count() - 1, Type::b64);
  d.op.run = &run_copy;
  if (d.operand_count() == 3 + hints) return;
  const ptx::Operand& last = d.operand(3);
  if (d.is_register(last) && d.register_bytes(last, Type::u32) == 0) {
    d.op.from[1] = d.read_predicate(3);
    d.op.options[1] = last.is_negated ? 1 : 0;
  } else {
    d.op.from[0] = d.read(3, Type::u32);
  }
}

void cp(Decoding& d) {
  d.op.kind = Kind::async;
  if (!d.take("async")) return d.fail("only cp.async is supported");
  if (d.take("bulk")) return decode_bulk(d);
  if (d.take("commit_group")) {
    d.expect_operands(0, 0);
    d.op.run = &run_commit;
  } else if (d.take("wait_group")) {
    decode_wait(d, &run_wait_group);
  } else if (d.take("wait_all")) {
    d.expect_operands(0, 0);
    d.op.options[1] = 1;
    d.op.run = &run_wait_group;
  } else if (d.take("mbarrier")) {
    if (!d.take("arrive")) return d.fail("cp.async.mbarrier is .arrive");
    d.op.options[1] = d.take("noinc") ? 1 : 0;
    d.op.space = take_memory_space(d);
    d.take("b64");
    d.expect_operands(1, 1);
    d.address(0, 0);
    d.op.run = &run_arrive_later;
  } else {
    decode_copy(d);
  }
}

}  // namespace

Step check_exit(const Context& context, const Operation& operation, std::uint32_t lanes) {
  for (const auto* copies : {&context.warp.copies, &context.warp.bulk_copies}) {
    for (const auto& [lane, groups] : *copies) {
      if ((lanes >> lane & 1) == 0) continue;
      const bool is_waited = groups.open.empty() && std::all_of(groups.groups.begin(), groups.groups.end(),
                                                                [](const auto& group) { return group.empty(); });
      if (!is_waited)
        return context.fail(operation, lane, Rule::async_copy, std::nullopt,
                            "ends with asynchronous copies that it has not waited for");
    }
  }
  return Step::advance;
}

std::string explain_waiting(const Block& block) {
  for (const auto& [offset, mbarrier] : block.mbarriers) {
    if (mbarrier.transaction_bytes != 0 && mbarrier.pending == 0)
      return fmt::format("the mbarrier at {:#x} was promised {} bytes {} than were copied", offset,
                         std::abs(mbarrier.transaction_bytes), mbarrier.transaction_bytes > 0 ? "more" : "fewer");
    if (mbarrier.pending != 0)
      return fmt::format("the mbarrier at {:#x} waits for {} more arrivals of {}", offset, mbarrier.pending, mbarrier.expected);
  }
  return "nothing else happens";
}

Rule rule_of_waiting(const Block& block) {
  for (const auto& [offset, mbarrier] : block.mbarriers) {
    if (mbarrier.transaction_bytes != 0 && mbarrier.pending == 0) return Rule::async_copy;
    if (mbarrier.pending != 0) return Rule::barrier;
  }
  return Rule::progress;
}

void check_end(Launch& launch, Cluster& cluster) {
  for (Block& block : cluster.blocks) {
    for (const auto& [offset, mbarrier] : block.mbarriers) {
      const bool is_done = mbarrier.copies.empty() && mbarrier.transaction_bytes == 0;
      if (is_done) continue;
      const std::uint32_t thread =
          mbarrier.copies.empty() ? block.rank * cluster.warps_per_block * kLanes : mbarrier.copies[0].thread;
      Warp& warp = cluster.warps[thread / kLanes];
      const Context context{launch, cluster, cluster.blocks[warp.block], warp};
      const Operation& operation = mbarrier.copies.empty() ? launch.kernel.code.back() : *mbarrier.copies[0].operation;
      context.fail(operation, thread % kLanes, Rule::async_copy, offset,
                   mbarrier.copies.empty()
                       ? fmt::format("the block ends with an mbarrier that expects {} bytes", mbarrier.transaction_bytes)
                       : std::string("the block ends before anybody has waited for this copy"));
      return;
    }
  }
}

const DecoderTable& copy_decoders() {
  static const DecoderTable kTable = {{"cp", cp}};
  return kTable;
}

}  // namespace headnorm::emulator
