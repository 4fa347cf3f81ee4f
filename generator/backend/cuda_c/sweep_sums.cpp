// Sweeps: sums and maxima over the threads of a part or group, in the order that the plan says.
#include <fmt/format.h>

#include <map>

#include "generator/backend/cuda_c/sweep.h"
#include "generator/backend/gpu/plan_terms.h"

namespace headnorm::cuda_c {

using gpu::is_over_group;
using gpu::partitions;
using gpu::reduction_of;
using program::is_reduction;
using program::Op;
using program::Step;
using program::ValueId;

void Sweeps::finish_sums(const Step& step) {
  std::vector<ValueId> sums, shared;
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (is_reduction(at(id).op) && form(id).form != Form::none) sums.push_back(id);
  }
  for (ValueId id : sums) {
    const GpuReduction& reduction = reduction_of(plan_, at(id).domain);
    const char* const kind = at(id).op == Op::reduce_max ? "max" : "sum";
    if (reduction.shuffle_lanes > 1)
      out_.line(fmt::format("{0} = warp_{1}<{2}>({0});", form(id).name, kind, reduction.shuffle_lanes));
    if (reduction.partials > 1) shared.push_back(id);
  }
  if (!shared.empty()) share_sums(shared);
  if (plan_.gpu().cluster > 1 && !sums.empty()) share_in_cluster(step, sums);
}

// The first threads of a partition hand its sum to one block each, then all threads add up what their block was given.
void Sweeps::share_in_cluster(const Step& step, const std::vector<ValueId>& sums) {
  for (ValueId id : sums)
    out_.line(
        fmt::format("__shared__ float {}_of_blocks[{}];", form(id).name, partitions(plan_, at(id).domain) * plan_.gpu().cluster));
  out_.line("cluster_wait();  // all blocks are done with what is there");
  const char* const idle = has_threads_past_slots(plan_) ? "has_slot && " : "";
  for (ValueId id : sums) {
    const bool is_group = is_over_group(plan_, at(id).domain);
    const char* const threads = is_group ? "(kPartsPerGroup * kLanes)" : "kLanes";
    const char* const partition = is_group ? "slot / kPartsPerGroup" : "slot";
    out_.line(fmt::format("if ({0}threadIdx.x % {1} < kCluster)", idle, threads));
    out_.line(fmt::format("  hand_over(&{0}_of_blocks[{1} * kCluster + rank], threadIdx.x % {2}, {0});", form(id).name, partition,
                          threads));
  }
  out_.line("cluster_arrive();");
  out_.line("cluster_wait();");
  for (ValueId id : sums) {
    const char* const partition = is_over_group(plan_, at(id).domain) ? "slot / kPartsPerGroup" : "slot";
    const char* const kind = at(id).op == Op::reduce_max ? "max" : "sum";
    out_.line(fmt::format("{0} = block_{1}<kCluster>({0}_of_blocks + {2} * kCluster);", form(id).name, kind, partition));
  }
  if (plan_.gpu_schedule().grid == GridForm::persistent || has_later_sums(step)) out_.line("cluster_arrive();");
}

bool Sweeps::has_later_sums(const Step& step) const {
  for (ValueId id = step.end; id < static_cast<ValueId>(program_.instructions.size()); ++id) {
    if (is_reduction(at(id).op) && form(id).form != Form::none) return true;
  }
  return false;
}

// The first thread of each run leaves its run's sum, then all threads add up what belongs to them.
void Sweeps::share_sums(const std::vector<ValueId>& sums) {
  std::map<int, std::vector<ValueId>> by_run;
  for (ValueId id : sums) {
    const GpuReduction& reduction = reduction_of(plan_, at(id).domain);
    out_.line(
        fmt::format("__shared__ float {}_partials[{}];", form(id).name, partitions(plan_, at(id).domain) * reduction.partials));
    by_run[reduction.shuffle_lanes].push_back(id);
  }
  if (plan_.gpu_schedule().grid == GridForm::persistent) out_.line("__syncthreads();  // the last tile's may still be read");
  const bool has_idle_threads = has_threads_past_slots(plan_);
  for (const auto& [run, ids] : by_run) {
    std::string condition = run > 1 ? fmt::format("threadIdx.x % {} == 0", run) : "";
    if (has_idle_threads) condition += condition.empty() ? "has_slot" : " && has_slot";
    if (!condition.empty()) out_.open(fmt::format("if ({}) {{", condition));
    for (ValueId id : ids)
      out_.line(run > 1 ? fmt::format("{0}_partials[threadIdx.x / {1}] = {0};", form(id).name, run)
                        : fmt::format("{0}_partials[threadIdx.x] = {0};", form(id).name));
    if (!condition.empty()) out_.close();
  }
  out_.line("__syncthreads();");
  for (ValueId id : sums) {
    const char* const partition = is_over_group(plan_, at(id).domain) ? "slot / kPartsPerGroup" : "slot";
    const char* const kind = at(id).op == Op::reduce_max ? "max" : "sum";
    const int partials = reduction_of(plan_, at(id).domain).partials;
    out_.line(fmt::format("{0} = block_{1}<{2}>({0}_partials + {3} * {2});", form(id).name, kind, partials, partition));
  }
}

}  // namespace headnorm::cuda_c
