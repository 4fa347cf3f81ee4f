#include "emulator/machine/mbarrier.h"

#include <fmt/format.h>

#include "emulator/machine/decoding.h"
#include "emulator/machine/memory_forms.h"

namespace headnorm::emulator {
namespace {

constexpr std::uint32_t kMaxCount = (1 << 20) - 1, kBytes = 8;

Step run_init(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    AccessRequest request{operation.space, lane_address(context, operation.addresses[0], lane), kBytes, Access::write};
    if (access_bytes(context, operation, lane, request) == nullptr) return Step::fault;
    if (request.space == Space::generic) resolve_generic(request.address);
    const std::uint32_t count = context.word(operation.from[0], lane);
    if (count == 0 || count > kMaxCount)
      return context.fail(operation, lane, Rule::barrier, request.address,
                          fmt::format("an mbarrier for {} arrivals: 1 to {} can be", count, kMaxCount));
    const SharedPlace place = shared_place(context, request.address);
    place.block->shared.set_state(place.offset, kBytes, ByteState::barrier);
    Mbarrier mbarrier;
    mbarrier.expected = mbarrier.pending = count;
    mbarrier.made_by = context.thread(lane);
    place.block->mbarriers[place.offset] = std::move(mbarrier);
  }
  ++context.launch.progress;
  return Step::advance;
}

std::uint64_t shared_address(const Context& context, const Operation& operation, std::uint32_t lane) {
  std::uint64_t address = lane_address(context, operation.addresses[0], lane);
  if (operation.space == Space::generic) resolve_generic(address);
  return address;
}

Step run_invalidate(Context& context, const Operation& operation, std::uint32_t mask) {
  const std::uint32_t lane = first_lane(mask);
  const MbarrierPlace found = find_mbarrier(context, operation, lane, shared_address(context, operation, lane));
  if (found.mbarrier == nullptr) return Step::fault;
  if (!found.mbarrier->copies.empty())
    return context.fail(operation, lane, Rule::async_copy, std::nullopt, "ends an mbarrier that copies are on their way to");
  found.place.block->shared.set_state(found.place.offset, kBytes, ByteState::unwritten);
  found.place.block->mbarriers.erase(found.place.offset);
  return Step::advance;
}

// options: [1] what is done, as bits.
constexpr std::uint8_t kArrives = 1, kExpectsBytes = 2, kCompletesBytes = 4, kDrops = 8;

Step arrive(const Context& context, const Operation& operation, std::uint32_t lane, Mbarrier& mbarrier) {
  const bool has_count = operation.from[0] != kNoSlot && (operation.options[1] & (kExpectsBytes | kCompletesBytes)) == 0;
  const std::uint32_t count = has_count ? context.word(operation.from[0], lane) : 1;
  if (count > mbarrier.pending)
    return context.fail(operation, lane, Rule::barrier, std::nullopt,
                        fmt::format("{} arrivals at an mbarrier that waits for {} more in this phase", count, mbarrier.pending));
  context.cluster.order.release(context.warp.first_thread, std::uint32_t{1} << lane, mbarrier.clocks);
  mbarrier.pending -= count;
  if ((operation.options[1] & kDrops) != 0) mbarrier.expected -= count;
  return Step::advance;
}

Step run_arrive(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const MbarrierPlace found = find_mbarrier(context, operation, lane, shared_address(context, operation, lane));
    if (found.mbarrier == nullptr) return Step::fault;
    Mbarrier& mbarrier = *found.mbarrier;
    if (operation.to != kNoSlot) context.set_wide(operation.to, lane, mbarrier.phase);
    const std::uint8_t does = operation.options[1];
    if ((does & kExpectsBytes) != 0) mbarrier.transaction_bytes += context.word(operation.from[0], lane);
    if ((does & kCompletesBytes) != 0) mbarrier.transaction_bytes -= context.word(operation.from[0], lane);
    if ((does & kArrives) != 0 && arrive(context, operation, lane, mbarrier) == Step::fault) return Step::fault;
    settle(context.launch, mbarrier);
  }
  ++context.launch.progress;
  return Step::advance;
}

// from[0]: state or parity; options[1]: whether it is the parity.
Step run_wait(Context& context, const Operation& operation, std::uint32_t mask) {
  std::uint32_t done = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const MbarrierPlace found = find_mbarrier(context, operation, lane, shared_address(context, operation, lane));
    if (found.mbarrier == nullptr) return Step::fault;
    Mbarrier& mbarrier = *found.mbarrier;
    let_arrive(context, mbarrier);
    const bool is_parity = operation.options[1] != 0;
    const bool is_done = is_parity ? (mbarrier.phase & 1) != (context.word(operation.from[0], lane) & 1)
                                   : mbarrier.phase != context.wide(operation.from[0], lane);
    if (!is_done) continue;
    done |= std::uint32_t{1} << lane;
    context.cluster.order.acquire(context.warp.first_thread, mbarrier.completed_clocks);
  }
  context.set_mask(operation.to, done, mask);
  return done == mask ? Step::advance : Step::poll;
}

void decode_arrive(Decoding& d, std::uint8_t does) {
  if (d.take("expect_tx")) does |= kExpectsBytes;
  d.op.options[1] = does;
  d.expect_operands(2, 3);
  d.op.to = d.write(0, Type::b64);
  d.address(1, 0);
  if (d.operand_count() == 3) d.op.from[0] = d.read(2, Type::u32);
  if ((does & kExpectsBytes) != 0 && d.operand_count() != 3) return d.fail("the bytes are missing");
  d.op.run = &run_arrive;
}

void decode_wait(Decoding& d) {
  d.op.options[1] = d.take("parity") ? 1 : 0;
  d.expect_operands(3, 4);
  d.op.to = d.write(0, Type::pred);
  d.address(1, 0);
  d.op.from[0] = d.op.options[1] != 0 ? d.read(2, Type::u32) : d.read(2, Type::b64);
  if (d.operand_count() == 4) d.read(3, Type::u32);  // how long the hardware may sleep
  d.op.run = &run_wait;
}

void mbarrier(Decoding& d) {
  d.op.kind = Kind::async;
  const std::string_view form =
      d.take_any({"init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "expect_tx", "complete_tx"});
  d.op.space = take_memory_space(d);
  if (d.op.space != Space::shared && d.op.space != Space::generic) return d.fail("an mbarrier is in shared memory");
  take_strength(d);
  if (form == "arrive") {
    decode_arrive(d, kArrives);
  } else if (form == "arrive_drop") {
    decode_arrive(d, kArrives | kDrops);
  } else if (form == "test_wait" || form == "try_wait") {
    decode_wait(d);
  } else if (form == "expect_tx" || (form.empty() && d.take("expect_tx"))) {
    d.op.options[1] = kExpectsBytes;
    d.expect_operands(2, 2);
    d.address(0, 0);
    d.op.from[0] = d.read(1, Type::u32);
    d.op.run = &run_arrive;
  } else if (form == "complete_tx") {
    d.op.options[1] = kCompletesBytes;
    d.expect_operands(2, 2);
    d.address(0, 0);
    d.op.from[0] = d.read(1, Type::u32);
    d.op.run = &run_arrive;
  } else if (form == "init") {
    d.expect_operands(2, 2);
    d.address(0, 0);
    d.op.from[0] = d.read(1, Type::u32);
    d.op.run = &run_init;
  } else if (form == "inval") {
    d.expect_operands(1, 1);
    d.address(0, 0);
    d.op.run = &run_invalidate;
  } else {
    return d.fail("the form of mbarrier is not supported");
  }
  if (d.type() != Type::b64) d.fail("an mbarrier is .b64");
}

// mapa d, a, rank: the address of the same place in another block of the cluster. element_bytes: 8 for 64-bit addresses.
Step run_map(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const bool is_wide = operation.element_bytes == 8;
    const std::uint64_t address = is_wide ? context.wide(operation.from[0], lane) : context.word(operation.from[0], lane);
    const std::uint32_t rank = context.word(operation.from[1], lane);
    if (rank >= context.cluster.blocks.size())
      return context.fail(operation, lane, Rule::in_bounds, address,
                          fmt::format("block {} of a cluster of {}", rank, context.cluster.blocks.size()));
    const std::uint64_t offset = (std::uint64_t{1} << kBlockShift) - 1;
    const std::uint64_t window = address & ~(kWindowBytes - 1);
    const std::uint64_t mapped = window | (std::uint64_t{rank} + 1) << kBlockShift | (address & offset);
    if (is_wide) {
      context.set_wide(operation.to, lane, mapped);
    } else {
      context.set_word(operation.to, lane, static_cast<std::uint32_t>(mapped));
    }
  }
  return Step::advance;
}

void mapa(Decoding& d) {
  d.op.kind = Kind::move;
  d.take("shared::cluster");
  const Type type = d.type();
  d.expect_operands(3, 3);
  d.op.to = d.write(0, type);
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, Type::u32);
  d.op.element_bytes = static_cast<std::uint8_t>(size_bytes(type));
  if (type != Type::u32 && type != Type::u64) return d.fail("the type is not supported");
  d.op.run = &run_map;
}

Step run_rank(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    std::uint64_t address =
        operation.element_bytes == 8 ? context.wide(operation.from[0], lane) : context.word(operation.from[0], lane);
    resolve_generic(address);
    const SharedPlace place = shared_place(context, address);
    context.set_word(operation.to, lane, place.block == nullptr ? 0 : place.block->rank);
  }
  return Step::advance;
}

void getctarank(Decoding& d) {
  d.op.kind = Kind::move;
  d.take("shared::cluster");
  const Type type = d.type();
  d.expect_operands(2, 2);
  d.op.to = d.write(0, Type::u32);
  d.op.from[0] = d.read(1, type);
  d.op.element_bytes = static_cast<std::uint8_t>(size_bytes(type));
  d.op.run = &run_rank;
}

}  // namespace

MbarrierPlace find_mbarrier(const Context& context, const Operation& operation, std::uint32_t lane, std::uint64_t address) {
  const SharedPlace place = shared_place(context, address);
  if (place.block != nullptr) {
    const auto found = place.block->mbarriers.find(place.offset);
    if (found != place.block->mbarriers.end()) return {place, &found->second};
  }
  context.fail(operation, lane, Rule::initialised, address, "there is no mbarrier here: none has been initialised");
  return {place, nullptr};
}

void settle(Launch& launch, Mbarrier& mbarrier) {
  if (mbarrier.pending != 0 || mbarrier.transaction_bytes != 0) return;
  ++mbarrier.phase;
  mbarrier.pending = mbarrier.expected;
  mbarrier.completed_clocks = std::exchange(mbarrier.clocks, {});
  ++launch.progress;
}

void let_arrive(const Context& context, Mbarrier& mbarrier) {
  HappensBefore& order = context.cluster.order;
  for (const AsyncCopy& copy : std::exchange(mbarrier.copies, {})) {
    const Clock clock = order.tick_engine();
    context.cluster.blocks[copy.block].shared.note_arrival(order, copy.offset, copy.data);
    mbarrier.clocks.resize(order.engine() + 1, 0);
    mbarrier.clocks[order.engine()] = clock;
    if (copy.counts_bytes) mbarrier.transaction_bytes -= static_cast<std::int64_t>(copy.data.size());
    ++context.launch.progress;
  }
  mbarrier.pending -= std::min(mbarrier.pending, std::exchange(mbarrier.late_arrivals, 0));
  settle(context.launch, mbarrier);
}

const DecoderTable& mbarrier_decoders() {
  static const DecoderTable kTable = {{"mbarrier", mbarrier}, {"mapa", mapa}, {"getctarank", getctarank}};
  return kTable;
}

}  // namespace headnorm::emulator
