#include "tests/support/ptx_grid.h"

#include <fmt/format.h>

#include <random>
#include <set>

#include "core/artifact.h"

namespace headnorm::test {
namespace {

Plan default_plan(const std::string& spec_text, const Target& target) {
  const KernelSpec spec = *parse_spec(spec_text);
  return *make_plan(spec, default_schedule(spec, target), target);
}

}  // namespace

std::vector<Plan> default_plans(const Target& target) {
  std::vector<Plan> plans;
  auto add = [&](const std::string& spec) { plans.push_back(default_plan(spec, target)); };
  for (int d : {1,  2,   3,   4,   5,   6,   7,   8,   16,  24,  32,  40,  48,  64,  72,  80,
                96, 112, 120, 128, 160, 192, 208, 256, 288, 304, 320, 352, 512, 576, 1024})
    add(fmt::format("width={},head_size={}", 12 * d, d));
  for (int width : {1, 3, 17, 31, 33, 127, 129, 767, 769, 1000, 1152, 4095, 4097, 8191, 16384, 65536, 1048576})
    add(fmt::format("width={0},head_size={0},x=f32,y=f32,weight=channel:f32", width));
  for (Dtype x : kDtypes) {
    for (Dtype w : kDtypes) {
      const auto xt = to_text(x), wt = to_text(w);
      add(fmt::format("width=1152,head_size=288,x={0},y={1},weight=channel:{1}", xt, wt));
      add(fmt::format("width=768,head_size=256,x={0},y={0},weight=shared:{1},residual=add:{1},gate=seednorm", xt, wt));
      add(fmt::format("width=768,head_size=48,x={0},y={0},weight=head:{1},residual=inplace:{1},gate=seednorm,seed_heads=1", xt,
                      wt));
      add(fmt::format("width=4096,head_size=4096,x={0},y={1},weight=none:{1},gate=seednorm,seed_heads=16", xt, wt));
    }
  }
  for (const char* sigma : {"tanh", "sigmoid", "softsign", "hardtanh"})
    add(
        fmt::format("width=384,head_size=12,gate=seednorm,seed_heads=4,weight_offset=1,seed_scale=0.25,rounding=llama,"
                    "residual=add:f16,norm_input=unrounded,sigma={}",
                    sigma));
  add("width=32768,head_size=32768,residual=add:f32,gate=seednorm,seed_heads=1");
  return plans;
}

std::vector<Plan> sampled_plans(const Target& target, std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](const auto& values) { return values[random() % std::size(values)]; };
  const std::string specs[] = {
      "width=4096,head_size=256",
      "width=4096,head_size=4096,residual=add:bf16",
      "width=1152,head_size=288,residual=add:f32,gate=seednorm",
      "width=768,head_size=192,x=f16,y=f16,weight=shared:f32,residual=inplace:f16,gate=seednorm,seed_heads=1",
      "width=2432,head_size=304,x=f32,y=bf16,weight=channel:f32,rounding=llama",
      "width=8192,head_size=8192,x=f32,y=f32,weight=channel:f32,gate=seednorm,seed_heads=16",
      "width=1000,head_size=8,weight=head:f32,residual=add:f32,norm_input=unrounded",
      "width=1664,head_size=208,weight=none,gate=seednorm,sigma=softsign"};
  const int blocks[] = {32, 64, 128, 256, 512, 1024}, unrolls[] = {0, 0, 1, 2, 3, 8}, tiles[] = {0, 0, 0, 1, 2, 4};
  const Residency residencies[] = {Residency::registers, Residency::registers, Residency::shared, Residency::reload};
  const GridForm grids[] = {GridForm::once, GridForm::persistent};
  const WeightLoad loads[] = {WeightLoad::after, WeightLoad::before};
  const int accesses[] = {2, 8, 16, 16, target.max_access_bytes()};
  const int clusters[] = {1, 1, 1, 2, 8, 16}, stages[] = {0, 2, 3};
  const Staging stagings[] = {Staging::none, Staging::none, Staging::async, Staging::bulk};
  const CacheUse caches[] = {CacheUse::plain, CacheUse::plain, CacheUse::stream};
  const LaunchForm launches[] = {LaunchForm::plain, LaunchForm::plain, LaunchForm::dependent, LaunchForm::weights_ahead};
  std::vector<Plan> plans;
  std::set<std::string> names;
  while (plans.size() < count) {
    GpuSchedule s{.lanes = 1 << random() % 11, .vector_elements = 1 << random() % 5, .block_threads = pick(blocks)};
    s.groups = pick(tiles);
    s.rows = pick(tiles);
    s.residency = pick(residencies);
    s.unroll = pick(unrolls);
    s.grid = pick(grids);
    s.weights = pick(loads);
    s.access_bytes = pick(accesses);
    s.cluster = target.has_clusters() ? pick(clusters) : 1;
    s.staging = pick(stagings);
    s.stages = pick(stages);
    s.cache = pick(caches);
    s.launch = target.has_dependent_launch() ? pick(launches) : LaunchForm::plain;
    const Result<Plan> plan = make_plan(*parse_spec(pick(specs)), s, target);
    if (plan.ok() && names.insert(entry_name(*plan)).second) plans.push_back(*plan);
  }
  return plans;
}

}  // namespace headnorm::test
