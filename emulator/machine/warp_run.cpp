#include "emulator/machine/warp_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/machine/async.h"
#include "emulator/machine/barriers.h"

namespace headnorm::emulator {
namespace {

constexpr std::uint64_t kGroupTurn = 1024;  // instructions before diverged lanes that are ready come to turn

class WarpRun {
 public:
  WarpRun(Launch& launch, Cluster& cluster, Warp& warp)
      : launch_(launch), warp_(warp), context_{launch, cluster, cluster.blocks[warp.block], warp} {}

  WarpTurn run(std::uint64_t most) {
    WarpTurn turn;
    while (turn.instructions < most && choose()) {
      ++turn.instructions;
      if (!step()) break;
    }
    turn.is_polling = !warp_.groups.empty() && std::all_of(warp_.groups.begin(), warp_.groups.end(),
                                                           [](const Group& g) { return g.state != Group::State::ready; });
    // Those that asked in vain may ask again when the warp's turn comes next.
    bool polls = false;
    for (Group& group : warp_.groups) {
      if (group.state != Group::State::polling) continue;
      group.state = Group::State::ready;
      polls = true;
    }
    turn.is_polling = turn.is_polling && polls;
    return turn;
  }

 private:
  Group& group() { return warp_.groups[context_.group]; }

  // Joins groups that stand at one place, and takes the ready one that is furthest behind in the text: lanes that go on wait for
  // those that still have to come, so that they meet again where branches join.
  bool choose() {
    if (warp_.groups.size() == 1) {
      context_.group = 0;
      return group().state == Group::State::ready;
    }
    merge();
    std::size_t best = warp_.groups.size();
    for (std::size_t i = 0; i < warp_.groups.size(); ++i) {
      if (warp_.groups[i].state != Group::State::ready) continue;
      if (best == warp_.groups.size() || warp_.groups[i].at < warp_.groups[best].at) best = i;
    }
    if (best == warp_.groups.size()) return false;
    context_.group = static_cast<std::uint32_t>(best);
    rotate();
    return true;
  }

  // Lanes that spin must let those run that they spin for.
  void rotate() {
    if (++since_rotation_ < kGroupTurn) return;
    since_rotation_ = 0;
    for (std::size_t i = 1; i < warp_.groups.size(); ++i) {
      const std::size_t other = (context_.group + i) % warp_.groups.size();
      if (warp_.groups[other].state != Group::State::ready) continue;
      group().state = Group::State::polling;
      context_.group = static_cast<std::uint32_t>(other);
      return;
    }
  }

  static bool can_join(const Group& a, const Group& b) {
    return a.at == b.at && a.state != Group::State::waiting && b.state != Group::State::waiting;
  }

  void merge() {
    std::vector<Group>& groups = warp_.groups;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].lanes == 0) {
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i--));
        continue;
      }
      for (std::size_t k = i + 1; k < groups.size();) {
        if (!can_join(groups[i], groups[k])) {
          ++k;
          continue;
        }
        groups[i].lanes |= groups[k].lanes;
        groups[i].state = Group::State::ready;
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(k));
      }
    }
  }

  std::uint32_t running_lanes(const Operation& operation) {
    if (operation.guard == kNoSlot) return group().lanes;
    const std::uint32_t guard = context_.mask(operation.guard) ^ (operation.is_guard_negated ? kFullMask : 0);
    return group().lanes & guard;
  }

  bool check_defined(const Operation& operation, std::uint32_t mask) {
    const Slot* reads = launch_.kernel.slots.data() + operation.reads.first;
    for (std::uint32_t i = 0; i < operation.reads.count; ++i) {
      const std::uint32_t lanes = reads[i] == operation.guard ? group().lanes : mask;
      const std::uint32_t undefined = lanes & ~warp_.defined[reads[i]];
      if (undefined == 0) continue;
      context_.fail(operation, first_lane(undefined), Rule::initialised, std::nullopt,
                    fmt::format("reads register {}, which has not been set", launch_.kernel.source.registers[reads[i]].name));
      return false;
    }
    return true;
  }

  // One instruction of the chosen group; false when the warp's turn is over.
  bool step() {
    if (group().at >= launch_.kernel.code.size()) return end_lanes(group().lanes, launch_.kernel.code.back());
    const Operation& operation = launch_.kernel.code[group().at];
    const std::uint32_t mask = running_lanes(operation);
    if (!check_defined(operation, mask)) return false;
    Counters::Instructions& counters = launch_.counters.instructions[static_cast<std::size_t>(operation.kind)];
    ++counters.warps;
    counters.threads += static_cast<std::uint64_t>(std::popcount(mask));
    if (mask == 0) {
      ++group().at;
      return true;
    }
    if (operation.is_collective && mask != group().lanes) leave_out(mask);
    const Step result = operation.run(context_, operation, mask);
    const Slot* writes = launch_.kernel.slots.data() + operation.writes.first;
    for (std::uint32_t i = 0; i < operation.writes.count; ++i) warp_.defined[writes[i]] |= mask;
    return finish(result, operation, mask);
  }

  void leave_out(std::uint32_t mask) {
    const Group rest{Group::State::ready, group().at + 1, group().lanes & ~mask, 0};
    group().lanes = mask;
    warp_.groups.push_back(rest);
  }

  bool finish(Step result, const Operation& operation, std::uint32_t mask) {
    switch (result) {
      case Step::advance:
        ++group().at;
        return true;
      case Step::jump:
        return true;
      case Step::exit:
        return end_lanes(mask, operation);
      case Step::converge:
        group().state = Group::State::converging;
        return true;
      case Step::wait:
        return true;
      case Step::poll:
        ++group().at;
        group().state = Group::State::polling;
        return true;
      case Step::fault:
        break;
    }
    return false;
  }

  bool end_lanes(std::uint32_t mask, const Operation& operation) {
    if (check_exit(context_, operation, mask) == Step::fault) return false;
    warp_.alive &= ~mask;
    group().lanes &= ~mask;
    if (group().lanes != 0) ++group().at;
    if (group().lanes == 0) warp_.groups.erase(warp_.groups.begin() + context_.group);
    for (Group& other : warp_.groups) {  // who waited for these lanes may not have to
      if (other.state == Group::State::converging) other.state = Group::State::ready;
    }
    context_.block.alive -= static_cast<std::uint32_t>(std::popcount(mask));
    ++launch_.progress;
    complete_barriers(launch_, context_.cluster, context_.block);
    return !warp_.groups.empty();
  }

  Launch& launch_;
  Warp& warp_;
  Context context_;
  std::uint64_t since_rotation_ = 0;
};

const Operation& operation_at(const Launch& launch, const Group& group) {
  return launch.kernel.code[std::min<std::size_t>(group.at, launch.kernel.code.size() - 1)];
}

// The first group in a state, with its warp.
bool find_group(Cluster& cluster, Group::State state, Warp*& warp, Group*& group) {
  for (Warp& w : cluster.warps) {
    for (Group& g : w.groups) {
      if (g.state != state || g.lanes == 0) continue;
      warp = &w;
      group = &g;
      return true;
    }
  }
  return false;
}

Rule rule_of_place(const Operation& operation) { return operation.kind == Kind::shuffle ? Rule::shuffle : Rule::barrier; }

}  // namespace

WarpTurn run_warp(Launch& launch, Cluster& cluster, Warp& warp, std::uint64_t most) {
  return WarpRun(launch, cluster, warp).run(most);
}

void report_stuck(Launch& launch, Cluster& cluster) {
  Warp* warp = nullptr;
  Group* group = nullptr;
  auto fail = [&](Rule rule, std::string what) {
    const Context context{launch, cluster, cluster.blocks[warp->block], *warp};
    context.fail(operation_at(launch, *group), first_lane(group->lanes), rule, std::nullopt, std::move(what));
  };
  if (find_group(cluster, Group::State::converging, warp, group)) {
    const std::uint32_t missing = warp->alive & ~group->lanes;
    return fail(rule_of_place(operation_at(launch, *group)),
                fmt::format("lanes {:#010x} of the warp wait here for lanes {:#010x}, which do not come", group->lanes, missing));
  }
  for (Warp& w : cluster.warps) {  // an mbarrier says most about what is missing
    for (Group& g : w.groups) {
      if (g.lanes == 0 || g.state == Group::State::waiting) continue;
      warp = &w;
      group = &g;
      return fail(rule_of_waiting(cluster.blocks[w.block]), "waits for ever: " + explain_waiting(cluster.blocks[w.block]));
    }
  }
  if (!find_group(cluster, Group::State::waiting, warp, group)) return;
  const Block& block = cluster.blocks[warp->block];
  if (group->barrier == kBarriers)
    return fail(Rule::barrier, fmt::format("{} threads wait at the cluster's barrier, the others do not come", cluster.arrived));
  const Barrier& barrier = block.barriers[group->barrier];
  fail(Rule::barrier, fmt::format("{} threads wait at barrier {}, {} should come", barrier.arrived, group->barrier,
                                  barrier.expected != 0 ? barrier.expected : block.alive));
}

void report_endless(Launch& launch, Cluster& cluster) {
  for (Warp& warp : cluster.warps) {
    if (warp.groups.empty()) continue;
    const Context context{launch, cluster, cluster.blocks[warp.block], warp};
    context.fail(operation_at(launch, warp.groups[0]), first_lane(warp.groups[0].lanes), Rule::progress, std::nullopt,
                 fmt::format("does not end within {} instructions", launch.options.max_warp_instructions));
    return;
  }
}

}  // namespace headnorm::emulator
