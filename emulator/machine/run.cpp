#include "emulator/machine/run.h"

#include <algorithm>
#include <bit>

#include "emulator/machine/async.h"
#include "emulator/machine/cluster_setup.h"
#include "emulator/machine/warp_run.h"

namespace headnorm::emulator {
namespace {

constexpr std::uint64_t kTurn = 20000;               // instructions of a warp before others come to turn
constexpr std::uint64_t kPollsWithoutProgress = 64;  // of each warp, before all count as waiting for ever

class ClusterRun {
 public:
  ClusterRun(Launch& launch, Cluster& cluster) : launch_(launch), cluster_(cluster) {}

  void run() {
    std::vector<std::size_t> turns(cluster_.warps.size());
    for (std::size_t i = 0; i < turns.size(); ++i) turns[i] = launch_.options.order == Order::reverse ? turns.size() - 1 - i : i;
    while (!launch_.fault && has_threads()) {
      if (launch_.options.order == Order::random) std::shuffle(turns.begin(), turns.end(), launch_.random);
      const std::uint64_t before = launch_.progress;
      std::uint64_t ran = 0, working = 0;
      for (std::size_t i : turns) {
        const WarpTurn turn = run_warp(launch_, cluster_, cluster_.warps[i], turn_length());
        ran += turn.instructions;
        working += turn.instructions > 0 && !turn.is_polling ? 1 : 0;
        if (launch_.fault) return;
      }
      instructions_ += ran;
      if (launch_.progress != before) idle_turns_ = 0;
      if (working == 0) ++idle_turns_;
      if (ran == 0 || idle_turns_ > kPollsWithoutProgress) return report_stuck(launch_, cluster_);
      if (instructions_ > launch_.options.max_warp_instructions) return report_endless(launch_, cluster_);
    }
    if (!launch_.fault) check_end(launch_, cluster_);
  }

 private:
  bool has_threads() const {
    return std::any_of(cluster_.blocks.begin(), cluster_.blocks.end(), [](const Block& block) { return block.alive != 0; });
  }

  std::uint64_t turn_length() {
    if (launch_.options.order != Order::random) return kTurn;
    return 1 + launch_.random() % 64;
  }

  Launch& launch_;
  Cluster& cluster_;
  std::uint64_t instructions_ = 0, idle_turns_ = 0;
};

// The clusters that run, in the order asked for.
std::vector<std::uint64_t> cluster_order(Launch& launch) {
  const std::uint64_t blocks_each = launch.shape.cluster.count(), blocks = launch.shape.grid.count();
  std::vector<std::uint64_t> clusters;
  std::vector<BlockRange> ranges = launch.options.blocks;
  if (ranges.empty()) ranges.push_back({0, blocks});
  for (const BlockRange& range : ranges) {
    for (std::uint64_t i = range.first / blocks_each; i * blocks_each < std::min(range.last, blocks); ++i) clusters.push_back(i);
  }
  if (launch.options.order == Order::reverse) std::reverse(clusters.begin(), clusters.end());
  if (launch.options.order == Order::random) std::shuffle(clusters.begin(), clusters.end(), launch.random);
  return clusters;
}

}  // namespace

void run_launch(Launch& launch) {
  Cluster cluster;
  make_cluster(launch, cluster);
  for (std::uint64_t number : cluster_order(launch)) {
    begin_cluster(launch, cluster, number);
    ClusterRun(launch, cluster).run();
    if (launch.fault) return;
    launch.counters.blocks += cluster.blocks.size();
  }
}

}  // namespace headnorm::emulator
