// Barriers, fences, and what ends or delays a thread: decoding and running.
#include <fmt/format.h>

#include <bit>

#include "emulator/machine/barriers.h"
#include "emulator/machine/decoding.h"

namespace headnorm::emulator {
namespace {

std::uint32_t count(std::uint32_t lanes) { return static_cast<std::uint32_t>(std::popcount(lanes)); }

// options of a barrier
enum class Meeting : std::uint8_t { sync, arrive, reduce };
enum class Reduction : std::uint8_t { none, ones, all, any };

std::span<Warp> warps_of(Cluster& cluster, const Block& block) {
  return {cluster.warps.data() + block.rank * cluster.warps_per_block, cluster.warps_per_block};
}

void give_results(Barrier& barrier) {
  for (const Barrier::Reader& reader : barrier.readers) {
    const auto reduction = static_cast<Reduction>(reader.operation->options[2]);
    const Slot to = reader.operation->to;
    if (reduction == Reduction::ones) {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        if ((reader.lanes >> lane & 1) != 0) std::memcpy(reader.warp->slot(to) + 4 * lane, &barrier.ones, 4);
      }
      continue;
    }
    const bool is_true = reduction == Reduction::all ? barrier.ones == barrier.asked : barrier.ones > 0;
    std::uint32_t mask = 0;
    std::memcpy(&mask, reader.warp->slot(to), 4);
    mask = is_true ? mask | reader.lanes : mask & ~reader.lanes;
    std::memcpy(reader.warp->slot(to), &mask, 4);
  }
}

void complete(Launch& launch, Cluster& cluster, Block& block, std::uint32_t number) {
  Barrier& barrier = block.barriers[number];
  // Threads that have ended are met by a barrier of all, but not by one of a named count.
  const bool is_whole = barrier.expected == 0 || barrier.arrived >= launch.shape.block.count();
  if (is_whole) cluster.order.block_barrier(block.rank);
  give_results(barrier);
  for (Warp& warp : warps_of(cluster, block)) {
    for (Group& group : warp.groups) {
      if (group.state != Group::State::waiting || group.barrier != number) continue;
      if (!is_whole) cluster.order.acquire(warp.first_thread, barrier.clocks);
      group.state = Group::State::ready;
      ++group.at;
    }
  }
  barrier = {};
  ++launch.progress;
  ++launch.counters.barriers;
}

bool is_complete(const Block& block, const Barrier& barrier) {
  if (barrier.arrived == 0) return false;
  return barrier.arrived >= (barrier.expected != 0 ? barrier.expected : block.alive);
}

void complete_cluster_barrier(Launch& launch, Cluster& cluster) {
  cluster.order.cluster_barrier();
  cluster.arrived = 0;
  ++cluster.barriers;
  ++launch.progress;
  for (Warp& warp : cluster.warps) {
    for (Group& group : warp.groups) {
      if (group.state == Group::State::waiting && group.barrier == kBarriers) group.state = Group::State::ready;
    }
  }
}

std::uint32_t alive_threads(const Cluster& cluster) {
  std::uint32_t alive = 0;
  for (const Block& block : cluster.blocks) alive += block.alive;
  return alive;
}

// Notes the arrival; a fault where the barrier is used in two ways at once.
Step arrive(Context& context, const Operation& operation, std::uint32_t mask, std::uint32_t number) {
  Barrier& barrier = context.block.barriers[number];
  const std::uint32_t lane = first_lane(mask);
  const std::uint32_t expected = operation.from[1] == kNoSlot ? 0 : context.word(operation.from[1], lane);
  auto fail = [&](std::string what) { return context.fail(operation, lane, Rule::barrier, std::nullopt, std::move(what)); };
  if (operation.from[1] != kNoSlot && (expected == 0 || expected % kLanes != 0))
    return fail(fmt::format("barrier {} for {} threads, which is not a multiple of {}", number, expected, kLanes));
  if (barrier.arrived != 0 && barrier.expected != expected)
    return fail(fmt::format("barrier {} for {} threads here, for {} where others wait", number, expected, barrier.expected));
  barrier.expected = expected;
  // A named count is of whole warps, whatever part of them there is.
  barrier.arrived += expected != 0 && mask == context.warp.alive ? kLanes : count(mask);
  const std::uint32_t wanted = expected != 0 ? expected : context.block.alive;
  if (barrier.arrived > wanted) return fail(fmt::format("{} threads arrive at barrier {} for {}", barrier.arrived, number, wanted));
  if (expected != 0) context.cluster.order.release(context.warp.first_thread, mask, barrier.clocks);
  return Step::advance;
}

Step run_barrier(Context& context, const Operation& operation, std::uint32_t mask) {
  const bool is_aligned = operation.options[1] != 0;
  if (is_aligned && mask != context.warp.alive) return Step::converge;
  const std::uint32_t number = context.word(operation.from[0], first_lane(mask));
  if (number >= kBarriers)
    return context.fail(operation, first_lane(mask), Rule::barrier, std::nullopt, fmt::format("there is no barrier {}", number));
  if (arrive(context, operation, mask, number) == Step::fault) return Step::fault;
  Barrier& barrier = context.block.barriers[number];
  const auto meeting = static_cast<Meeting>(operation.options[0]);
  if (meeting == Meeting::reduce) {
    const std::uint32_t predicate = context.mask(operation.from[2]) ^ (operation.options[3] != 0 ? kFullMask : 0);
    barrier.ones += count(predicate & mask);
    barrier.asked += count(mask);
    barrier.readers.push_back({&context.warp, &operation, mask});
  }
  if (meeting == Meeting::arrive) {
    if (is_complete(context.block, barrier)) complete(context.launch, context.cluster, context.block, number);
    return Step::advance;
  }
  Group& group = context.warp.groups[context.group];
  group.state = Group::State::waiting;
  group.barrier = number;
  if (!is_complete(context.block, barrier)) return Step::wait;
  complete(context.launch, context.cluster, context.block, number);
  return Step::jump;
}

Step run_warp_barrier(Context& context, const Operation& operation, std::uint32_t mask) {
  std::uint32_t needed = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint32_t named = context.word(operation.from[0], lane);
    if ((named >> lane & 1) == 0)
      return context.fail(operation, lane, Rule::barrier, std::nullopt,
                          fmt::format("the mask {:#010x} does not name the thread itself", named));
    needed |= named & context.warp.alive;
  }
  if ((needed & ~mask) != 0) return Step::converge;
  // Lanes with different masks meet in sets of their own.
  for (std::uint32_t left = mask; left != 0;) {
    const std::uint32_t set = context.word(operation.from[0], first_lane(left)) & mask;
    context.cluster.order.warp_barrier(context.warp.first_thread, set);
    left &= ~set;
  }
  return Step::advance;
}

Step run_cluster_arrive(Context& context, const Operation& operation, std::uint32_t mask) {
  if (operation.options[1] != 0 && mask != context.warp.alive) return Step::converge;
  if ((context.warp.cluster_arrived & mask) != 0)
    return context.fail(operation, first_lane(context.warp.cluster_arrived & mask), Rule::barrier, std::nullopt,
                        "arrives at the cluster's barrier twice without waiting");
  context.warp.cluster_arrived |= mask;
  context.warp.cluster_barrier = context.cluster.barriers;
  context.cluster.arrived += count(mask);
  if (context.cluster.arrived >= alive_threads(context.cluster)) complete_cluster_barrier(context.launch, context.cluster);
  return Step::advance;
}

Step run_cluster_wait(Context& context, const Operation& operation, std::uint32_t mask) {
  if (operation.options[1] != 0 && mask != context.warp.alive) return Step::converge;
  if ((mask & ~context.warp.cluster_arrived) != 0)
    return context.fail(operation, first_lane(mask & ~context.warp.cluster_arrived), Rule::barrier, std::nullopt,
                        "waits at the cluster's barrier without having arrived");
  if (context.cluster.barriers > context.warp.cluster_barrier) {
    context.warp.cluster_arrived &= ~mask;
    return Step::advance;
  }
  Group& group = context.warp.groups[context.group];
  group.state = Group::State::waiting;
  group.barrier = kBarriers;
  return Step::wait;
}

Step run_nothing(Context&, const Operation&, std::uint32_t) { return Step::advance; }
Step run_exit(Context& context, const Operation&, std::uint32_t mask) {
  if ((mask & ~context.warp.settled) != 0) context.launch.leaves_unsettled = true;
  return Step::exit;
}
Step run_launch_wait(Context& context, const Operation&, std::uint32_t mask) {
  context.warp.settled |= mask;
  return Step::advance;
}
Step run_launch_dependents(Context& context, const Operation&, std::uint32_t mask) {
  if ((mask & ~context.warp.settled) != 0) context.launch.leaves_unsettled = true;
  return Step::advance;
}
// Of the threads here, to the copy engine.
Step run_show_mbarriers(Context& context, const Operation&, std::uint32_t mask) {
  for (auto& [offset, mbarrier] : context.block.mbarriers) {
    const std::uint32_t lane = mbarrier.made_by - context.warp.first_thread;
    if (lane < kLanes && (mask >> lane & 1) != 0) mbarrier.is_shown = true;
  }
  return Step::advance;
}
Step run_sleep(Context& context, const Operation&, std::uint32_t) {
  context.launch.time_ns += 1000;
  return Step::poll;
}
Step run_trap(Context& context, const Operation& operation, std::uint32_t mask) {
  return context.fail(operation, first_lane(mask), Rule::trap, std::nullopt, "the kernel stopped itself");
}

void decode_cluster_barrier(Decoding& d) {
  const bool is_arrive = d.take("arrive");
  if (!is_arrive && !d.take("wait")) return d.fail("barrier.cluster is .arrive or .wait");
  d.take_any({"release", "relaxed", "acquire"});
  d.take("aligned");
  d.op.options[1] = 1;
  d.expect_operands(0, 0);
  d.op.run = is_arrive ? &run_cluster_arrive : &run_cluster_wait;
}

void decode_reduction(Decoding& d) {
  const std::string_view name = d.take_any({"popc", "and", "or"});
  if (name.empty()) return d.fail("the reduction is .popc, .and or .or");
  const Type type = d.type();
  d.op.options[0] = static_cast<std::uint8_t>(Meeting::reduce);
  d.op.options[2] = static_cast<std::uint8_t>(name == "popc" ? Reduction::ones : name == "and" ? Reduction::all : Reduction::any);
  d.op.to = d.write(0, name == "popc" ? Type::u32 : type);
  d.expect_operands(3, 4);
  d.op.from[0] = d.read(1, Type::u32);
  if (d.operand_count() == 4) d.op.from[1] = d.read(2, Type::u32);
  const std::size_t predicate = d.operand_count() - 1;
  d.op.from[2] = d.read_predicate(predicate);
  d.op.options[3] = d.is_negated(predicate) ? 1 : 0;
  d.op.run = &run_barrier;
}

void decode_barrier(Decoding& d) {
  d.op.kind = Kind::barrier;
  d.op.is_collective = true;
  if (d.take("warp")) {
    if (!d.take("sync")) d.fail("only bar.warp.sync is supported");
    d.expect_operands(1, 1);
    d.op.from[0] = d.read(0, Type::b32);
    d.op.run = &run_warp_barrier;
    return;
  }
  if (d.take("cluster")) return decode_cluster_barrier(d);
  d.take("cta");
  const bool is_aligned = d.take("aligned") || d.source().base == "bar";
  const std::string_view form = d.take_any({"sync", "arrive", "red"});
  d.op.options[1] = is_aligned ? 1 : 0;
  if (form == "red") return decode_reduction(d);
  if (form.empty()) return d.fail("a barrier is .sync, .arrive or .red");
  d.op.options[0] = static_cast<std::uint8_t>(form == "sync" ? Meeting::sync : Meeting::arrive);
  d.expect_operands(form == "sync" ? 1 : 2, 2);
  d.op.from[0] = d.read(0, Type::u32);
  if (d.operand_count() == 2) d.op.from[1] = d.read(1, Type::u32);
  d.op.run = &run_barrier;
}

void ret(Decoding& d) {
  d.take("uni");
  d.expect_operands(0, 0);
  d.op.kind = Kind::branch;
  d.op.run = &run_exit;
}

void trap(Decoding& d) {
  d.expect_operands(0, 0);
  d.op.run = &run_trap;
}

void nanosleep(Decoding& d) {
  d.expect_operands(1, 1);
  if (d.type() != Type::u32) return d.fail("the type is not supported");
  d.read(0, Type::u32);
  d.op.run = &run_sleep;
}

// Memory is always as if each access were complete before the next: an order that is asked for is there.
void fence(Decoding& d) {
  d.op.kind = Kind::barrier;
  d.expect_operands(0, 0);
  if (d.source().base == "membar") {
    if (d.take_any({"cta", "gl", "sys"}).empty() && !d.take("proxy")) d.fail("membar names no scope");
  } else if (d.take("proxy")) {
    const std::string_view proxy = d.take_any({"async", "alias"});
    if (proxy.empty()) return d.fail("the proxy is not supported");
    const std::string_view space = d.take_any({"global", "shared::cta", "shared::cluster"});
    d.op.run = proxy == "async" && space != "global" ? &run_show_mbarriers : &run_nothing;
    return;
  } else if (d.take("mbarrier_init")) {
    d.take("release");
    d.take("cluster");
    d.op.run = &run_show_mbarriers;
    return;
  } else {
    d.take_any({"sc", "acq_rel", "acquire", "release"});
    d.take_any({"cta", "cluster", "gpu", "sys"});
    d.take_any({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
  }
  d.op.run = &run_nothing;
}

void griddepcontrol(Decoding& d) {
  d.expect_operands(0, 0);
  const std::string_view form = d.take_any({"launch_dependents", "wait"});
  if (form.empty()) return d.fail("griddepcontrol is .launch_dependents or .wait");
  d.op.run = form == "wait" ? &run_launch_wait : &run_launch_dependents;
}

}  // namespace

void complete_barriers(Launch& launch, Cluster& cluster, Block& block) {
  for (std::uint32_t number = 0; number < kBarriers; ++number) {
    const Barrier& barrier = block.barriers[number];
    if (barrier.expected == 0 && block.alive != 0 && is_complete(block, barrier)) complete(launch, cluster, block, number);
  }
  if (cluster.arrived != 0 && cluster.arrived >= alive_threads(cluster)) complete_cluster_barrier(launch, cluster);
}

const DecoderTable& control_decoders() {
  static const DecoderTable kTable = {{"bar", decode_barrier},
                                      {"barrier", decode_barrier},
                                      {"ret", ret},
                                      {"exit", ret},
                                      {"trap", trap},
                                      {"nanosleep", nanosleep},
                                      {"fence", fence},
                                      {"membar", fence},
                                      {"griddepcontrol", griddepcontrol}};
  return kTable;
}

}  // namespace headnorm::emulator
