#include "tests/support/ptx_grid.h"

#include <fmt/format.h>

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

std::vector<Plan> unusual_plans(const Target& target) {
  std::vector<Plan> plans;
  for (const char* spec_text :
       {"width=4096,head_size=256", "width=1152,head_size=288,residual=add:f32,gate=seednorm", "width=36,head_size=9,x=f16,y=f16",
        "width=4096,head_size=4096,x=f32,y=f32,weight=channel:f32,residual=inplace:bf16,gate=seednorm,seed_heads=12"}) {
    for (const char* schedule : {"lanes=1,vector=16", "lanes=2,vector=8,residency=reload", "lanes=8,vector=4,access=4",
                                 "lanes=32,vector=1,block=96,residency=reload", "lanes=64,vector=2,block=1024,access=2",
                                 "lanes=512,vector=8,block=512", "lanes=1024,vector=1,block=1024,residency=reload"}) {
      const Result<KernelSpec> spec = parse_spec(spec_text);
      if (!spec.ok()) continue;
      const Result<Plan> plan = make_plan(*spec, *parse_schedule(schedule), target);
      if (plan.ok()) plans.push_back(*plan);
    }
  }
  return plans;
}

}  // namespace headnorm::test
