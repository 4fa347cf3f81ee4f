#include "tuner/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

namespace headnorm {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kLeastSplitDistance = 8 * kKiB;  // nearer prefetches arrive too late to help out of the last level cache

// Adds plans, counting what is refused or there already.
class Collector {
 public:
  Collector(const KernelSpec& spec, const Target& target) : spec_(spec), target_(target) {}

  void add(const Schedule& schedule) {
    Result<Plan> plan = make_plan(spec_, schedule, target_);
    if (!plan.ok()) {
      ++space_.illegal;
    } else if (!texts_.insert(to_text(plan->schedule)).second) {
      ++space_.collapsed;
    } else {
      space_.plans.push_back(*std::move(plan));
    }
  }

  const KernelSpec& spec() const { return spec_; }
  const Target& target() const { return target_; }
  SearchSpace take() { return std::move(space_); }

 private:
  const KernelSpec& spec_;
  const Target& target_;
  std::set<std::string> texts_;
  SearchSpace space_;
};

void add_prefetch(Collector& out, HostSchedule s, Prefetch level, PrefetchAt at, std::vector<std::int64_t> distances) {
  s.prefetch = level;
  s.prefetch_at = at;
  for (std::int64_t distance : distances) {
    s.prefetch_bytes = distance;
    out.add(s);
  }
}

// Parts in registers: reads and writes follow each other closely, and lines a few KiB ahead go straight to L1.
void add_register_forms(Collector& out, HostSchedule s) {
  s.form = HostForm::rot;
  out.add(s);
  for (Prefetch level : {Prefetch::t0, Prefetch::nta})
    add_prefetch(out, s, level, PrefetchAt::read, {2 * kKiB, 4 * kKiB, 6 * kKiB});
  s.form = HostForm::reg;
  out.add(s);
  add_prefetch(out, s, Prefetch::t0, PrefetchAt::read, {2 * kKiB, 4 * kKiB});
}

void add_pipe_forms(Collector& out, HostSchedule s) {
  s.form = HostForm::pipe;
  for (std::int64_t block : {2 * kKiB, 4 * kKiB, 8 * kKiB}) {
    for (int chunk : {2, 4, 8}) {
      s.block_bytes = block;
      s.chunk_lines = chunk;
      out.add(s);
      add_prefetch(out, s, Prefetch::t1, PrefetchAt::read, {std::max(kLeastSplitDistance, 2 * block)});
      add_prefetch(out, s, Prefetch::t0, PrefetchAt::read, {std::max(4 * kKiB, block + 2 * kKiB)});
    }
  }
}

// Blocks out of L1: lines go to L2 while the store queue drains, one to three blocks ahead.
void add_split_forms(Collector& out, HostSchedule s) {
  s.form = HostForm::split;
  const std::int64_t row_bytes = out.spec().width * size_bytes(out.spec().x_dtype);
  for (std::int64_t wanted : {2 * kKiB, 4 * kKiB, 8 * kKiB, 16 * kKiB, std::min(row_bytes, 64 * kKiB)}) {
    s.block_bytes = wanted;
    out.add(s);
    const Result<Plan> plan = make_plan(out.spec(), s, out.target());
    if (!plan.ok()) continue;
    const std::int64_t block = plan->host_schedule().block_bytes;
    std::vector<std::int64_t> distances;
    for (std::int64_t distance : {block, block + 4 * kKiB, 2 * block, 3 * block}) {
      distance = std::max(distance, kLeastSplitDistance);
      if (std::find(distances.begin(), distances.end(), distance) == distances.end()) distances.push_back(distance);
    }
    add_prefetch(out, s, Prefetch::t1, PrefetchAt::write, distances);
    add_prefetch(out, s, Prefetch::t1, PrefetchAt::read, {distances.front()});
    add_prefetch(out, s, Prefetch::t0, PrefetchAt::write, {distances.front()});
    add_prefetch(out, s, Prefetch::nta, PrefetchAt::write, {distances.front()});
  }
}

void add_host(Collector& out) {
  const auto start = std::get<HostSchedule>(default_schedule(out.spec(), out.target()));
  for (StoreKind store : {StoreKind::nt, StoreKind::plain}) {
    HostSchedule s;
    s.heads = start.heads;
    s.store = store;
    add_register_forms(out, s);
    add_split_forms(out, s);
    add_pipe_forms(out, s);
  }
}

std::int64_t part_elements(const KernelSpec& spec) {
  return spec.has_gate() ? std::min(spec.head_size, spec.width / spec.seed_heads) : spec.head_size;
}

// A block that takes tiles until there are none, with the weights of its whole rows in registers; where a row takes too many
// threads, with tiles as they come.
void add_persistent(Collector& out, GpuSchedule s) {
  s.grid = GridForm::persistent;
  s.weights = WeightLoad::before;
  const KernelSpec& spec = out.spec();
  s.groups =
      static_cast<int>(std::min<std::int64_t>(spec.has_gate() ? std::min(spec.heads(), spec.seed_heads) : spec.heads(), 1024));
  if (!make_plan(spec, s, out.target()).ok()) s.groups = 0;
  out.add(s);
}

// Rows on their way to shared memory while others are in work; where the grid persists, the next ones.
void add_staged(Collector& out, GpuSchedule s) {
  for (Staging staging : {Staging::async, Staging::bulk}) {
    s.staging = staging;
    for (int block : {128, 512}) {
      s.block_threads = block;
      add_persistent(out, s);
    }
    s.residency = Residency::shared;
    out.add(s);
    s.residency = Residency::registers;
  }
}

// Parts over several blocks, where they are long enough to give each block a few kilobytes.
void add_clusters(Collector& out, GpuSchedule s) {
  constexpr std::int64_t kLeastBytes = 4 * kKiB;
  if (!out.target().has_clusters() || s.lanes < 128) return;
  const std::int64_t bytes = part_elements(out.spec()) * size_bytes(out.spec().x_dtype);
  for (s.cluster = 2; s.cluster <= 8 && bytes / s.cluster >= kLeastBytes; s.cluster *= 2) {
    s.residency = Residency::registers;
    out.add(s);
    add_persistent(out, s);
    // Reading again is for what even a cluster cannot keep.
    s.residency = Residency::shared;
    if (!make_plan(out.spec(), s, out.target()).ok()) s.residency = Residency::reload;
    out.add(s);
  }
}

void add_gpu_lanes(Collector& out, GpuSchedule s) {
  add_staged(out, s);
  add_clusters(out, s);
  for (int block : {64, 128, 256, 512}) {
    s.block_threads = block;
    out.add(s);
    add_persistent(out, s);
  }
  for (Residency residency : {Residency::shared, Residency::reload}) {
    s.residency = residency;
    for (int block : {128, 512}) {
      s.block_threads = block;
      out.add(s);
    }
  }
}

void add_gpu(Collector& out) {
  for (int vector = 1; vector <= 16; vector *= 2) {
    // A vector is one access of x, and narrow ones only serve parts that wide ones do not divide.
    const int bytes = vector * size_bytes(out.spec().x_dtype);
    if (bytes > out.target().max_access_bytes()) continue;
    if (bytes < 8 && part_elements(out.spec()) % (2 * vector) == 0) continue;
    GpuSchedule s;
    s.vector_elements = vector;
    s.access_bytes = std::max(16, bytes);
    for (s.lanes = 1; s.lanes <= 1024; s.lanes *= 2) add_gpu_lanes(out, s);
  }
}

void refine_host(Collector& out, const HostSchedule& from) {
  HostSchedule s = from;
  for (int accumulators : {4, 2, 8}) {
    for (RsqrtForm rsqrt : {RsqrtForm::exact, RsqrtForm::newton}) {
      for (Unpack unpack : {Unpack::even_odd, Unpack::widen}) {
        s.accumulators = accumulators;
        s.rsqrt = rsqrt;
        s.unpack = unpack;
        out.add(s);
      }
    }
  }
  s = from;
  for (int heads : {1, 2, 4, 8, 16}) {
    s.heads = heads;
    out.add(s);
  }
}

// Loads in flight, the shape of the tile at the same number of lanes, and what the caches are told. How a launch follows others is
// not searched: alone on the device it changes nothing.
void refine_gpu(Collector& out, const GpuSchedule& from) {
  for (WeightLoad weights : {WeightLoad::after, WeightLoad::before}) {
    for (int unroll : {1, 2, 4, 8}) {
      GpuSchedule s = from;
      s.weights = weights;
      s.unroll = unroll;
      out.add(s);
    }
  }
  for (int rows : {1, 2, 4, 8}) {
    GpuSchedule s = from;
    s.rows = rows;
    out.add(s);
    s.groups = 0;
    out.add(s);
  }
  GpuSchedule s = from;
  s.cache = CacheUse::stream;
  out.add(s);
  s = from;
  for (s.stages = 2; s.staging != Staging::none && s.stages <= 4; ++s.stages) out.add(s);
}

}  // namespace

Result<SearchSpace> build_search_space(const KernelSpec& spec, const Target& target) {
  HEADNORM_TRY(const KernelSpec canonical, make_spec(spec));
  Collector out(canonical, target);
  out.add(default_schedule(canonical, target));
  target.kind == TargetKind::host ? add_host(out) : add_gpu(out);
  SearchSpace space = out.take();
  if (space.plans.empty()) {
    return user_error(fmt::format("no schedule of {} is legal for '{}'", to_text(target), to_text(canonical)),
                      "choose another target or head size; `headnorm explain` names the rule that a schedule breaks");
  }
  return space;
}

std::vector<Plan> refine(const Plan& plan) {
  Collector out(plan.spec, plan.target);
  out.add(plan.schedule);
  if (plan.target.kind == TargetKind::host)
    refine_host(out, plan.host_schedule());
  else
    refine_gpu(out, plan.gpu_schedule());
  std::vector<Plan> plans = out.take().plans;
  plans.erase(plans.begin());
  return plans;
}

}  // namespace headnorm
