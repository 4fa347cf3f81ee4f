#include "tuner/search_space.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace headnorm {
namespace {

KernelSpec spec_of(std::string_view text) { return *parse_spec(text); }
const Target kHost = make_host_target(HostIsa::x86_64_v4_bf16);

std::vector<std::string> schedule_texts(const std::vector<Plan>& plans) {
  std::vector<std::string> texts;
  for (const Plan& plan : plans) texts.push_back(to_text(plan.schedule));
  return texts;
}

bool contains(const SearchSpace& space, std::string_view schedule) {
  const Result<Plan> wanted = make_plan(space.plans[0].spec, *parse_schedule(schedule), space.plans[0].target);
  for (const Plan& plan : space.plans) {
    if (plan.schedule == wanted->schedule) return true;
  }
  return false;
}

TEST(SearchSpace, PlansAreDifferentLegalAndBeginWithTheDefault) {
  for (const char* text :
       {"width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06",
        "width=4096,head_size=4096,x=f32,y=f32,weight=channel:f32,eps=1e-06",
        "width=1000,head_size=1000,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06",
        "width=64,head_size=8,x=bf16,y=f32,weight=none,eps=1e-06", "width=1,head_size=1,x=f32,y=f32,weight=none,eps=1e-06"}) {
    for (const Target& target : {kHost, make_host_target(HostIsa::x86_64), make_gpu_target(80), *parse_target("sm_100+ptx88")}) {
      const Result<SearchSpace> space = build_search_space(spec_of(text), target);
      ASSERT_TRUE(space.ok()) << text << ": " << space.error().message;
      const std::vector<std::string> texts = schedule_texts(space->plans);
      EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
      EXPECT_EQ(texts[0], to_text(default_schedule(spec_of(text), target)));
      EXPECT_LE(texts.size(), 250u) << text << " " << to_text(target);
      for (const Plan& plan : space->plans) EXPECT_TRUE(make_plan(plan.spec, plan.schedule, plan.target).ok());
    }
  }
}

TEST(SearchSpace, HoldsTheStructuresThatWinOnTheHost) {
  const Result<SearchSpace> wide =
      build_search_space(spec_of("width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"), kHost);
  EXPECT_TRUE(contains(*wide, "form=split,block=8192,prefetch=t1,prefetch_at=write,prefetch_bytes=16384"));
  EXPECT_TRUE(contains(*wide, "form=rot,prefetch=t0,prefetch_at=read,prefetch_bytes=4096"));
  EXPECT_TRUE(contains(*wide, "form=pipe,block=2048,chunk=4"));
  EXPECT_TRUE(contains(*wide, "form=pipe,block=2048,chunk=4,prefetch=t0,prefetch_at=read,prefetch_bytes=4096"));
  EXPECT_TRUE(contains(*wide, "form=split,block=2048,store=plain"));
}

TEST(SearchSpace, HoldsTheStructuresOfGpuKernels) {
  const std::string bf16 = ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06";
  const Target hopper = make_gpu_target(90);
  const auto space_of = [&](const std::string& shape, const Target& target) {
    return *build_search_space(spec_of(shape + bf16), target);
  };
  const SearchSpace wide = space_of("width=4096,head_size=256", hopper);
  EXPECT_TRUE(contains(wide, "lanes=32,vector=8,block=512,grid=persistent,weights=before,groups=16"));
  EXPECT_TRUE(contains(wide, "lanes=8,vector=8,block=128,residency=shared"));
  EXPECT_TRUE(contains(wide, "lanes=8,vector=8,block=512,residency=reload"));
  for (const Plan& plan : wide.plans) EXPECT_LE(plan.gpu_schedule().access_bytes, 16);
  EXPECT_TRUE(contains(space_of("width=4096,head_size=256", *parse_target("sm_100+ptx88")), "lanes=16,vector=16,access=32"));

  // Heads that a power of two of lanes shares exactly with an odd number of vectors each.
  for (const auto& [d, width, lanes, vector] :
       {std::tuple(288, 1152, 4, 8), std::tuple(288, 1152, 8, 4), std::tuple(192, 768, 8, 8), std::tuple(352, 1408, 4, 8),
        std::tuple(304, 2432, 4, 4), std::tuple(208, 1664, 2, 8), std::tuple(72, 1152, 1, 8)}) {
    const SearchSpace space = space_of(fmt::format("width={},head_size={}", width, d), hopper);
    EXPECT_TRUE(contains(space, fmt::format("lanes={},vector={}", lanes, vector))) << d;
  }
}

TEST(SearchSpace, RefinementsOfAGpuPlanKeepItsLanes) {
  const Result<SearchSpace> space = build_search_space(spec_of("width=4096,head_size=4096,x=f32,y=f32"), make_gpu_target(90));
  const Plan& plan = space->plans[0];
  const std::vector<Plan> refined = refine(plan);
  EXPECT_GE(refined.size(), 4u);
  EXPECT_LE(refined.size(), 16u);
  std::set<std::string> texts{to_text(plan.schedule)};
  for (const Plan& other : refined) {
    EXPECT_TRUE(texts.insert(to_text(other.schedule)).second);
    EXPECT_EQ(other.gpu().lanes, plan.gpu().lanes);
    EXPECT_EQ(other.gpu().vector_elements, plan.gpu().vector_elements);
    EXPECT_EQ(other.gpu_schedule().residency, plan.gpu_schedule().residency);
  }
}

TEST(SearchSpace, CountsIllegalAndCollapsedSchedules) {
  // One head of 4096 does not fit in registers: rot and reg are refused. One row is the block of 8 KiB: it collapses.
  const Result<SearchSpace> space =
      build_search_space(spec_of("width=4096,head_size=4096,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"), kHost);
  EXPECT_EQ(space->illegal, 20);
  EXPECT_GT(space->collapsed, 0);
  for (const Plan& plan : space->plans) {
    EXPECT_NE(plan.host_schedule().form, HostForm::rot);
    EXPECT_NE(plan.host_schedule().form, HostForm::reg);
  }
}

TEST(SearchSpace, RefinementsDifferInSecondaryChoicesOnly) {
  const KernelSpec spec = spec_of("width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06");
  const Result<SearchSpace> space = build_search_space(spec, kHost);
  const std::vector<Plan> refined = refine(space->plans[0]);
  EXPECT_EQ(refined.size(), 13u);  // 3 accumulators, 2 roots, 2 unpacks, less the plan itself; 2 or 4 heads side by side
  std::set<std::string> texts{to_text(space->plans[0].schedule)};
  for (const Plan& plan : refined) {
    EXPECT_TRUE(texts.insert(to_text(plan.schedule)).second);
    HostSchedule s = plan.host_schedule();
    const HostSchedule& from = space->plans[0].host_schedule();
    s.accumulators = from.accumulators;
    s.rsqrt = from.rsqrt;
    s.unpack = from.unpack;
    s.heads = from.heads;
    EXPECT_EQ(s, from);
  }
}

TEST(SearchSpace, RefusesAnIllegalSpec) {
  KernelSpec spec;
  spec.width = 10;
  spec.head_size = 3;
  EXPECT_FALSE(build_search_space(spec, kHost).ok());
}

}  // namespace
}  // namespace headnorm
