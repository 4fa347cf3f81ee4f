// GPU targets and schedules: canonical texts, derived numbers, and every refusal with its rule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "core/artifact.h"
#include "core/plan.h"

namespace headnorm {
namespace {

KernelSpec spec_of(const std::string& text) { return *parse_spec(text); }
Target target_of(const std::string& text) { return *parse_target(text); }

Result<Plan> plan_of(const std::string& spec, const std::string& schedule, const std::string& target = "sm_90") {
  return make_plan(spec_of(spec), *parse_schedule(schedule), target_of(target));
}

TEST(GpuTarget, TextRoundTripsWithItsLowestPtxVersion) {
  const std::pair<const char*, int> lowest[] = {{"sm_80", 70},  {"sm_86", 71},  {"sm_89", 78},   {"sm_90", 78},
                                                {"sm_90a", 80}, {"sm_100", 86}, {"sm_100a", 86}, {"sm_120", 87}};
  EXPECT_EQ(std::size(lowest), gpu_targets().size());
  std::set<std::string> texts;
  for (const auto& [text, ptx] : lowest) {
    EXPECT_EQ(target_of(text).ptx, ptx) << text;
    EXPECT_EQ(to_text(target_of(text)), text);
    EXPECT_EQ(target_of(fmt::format("{}+ptx{}", text, ptx)), target_of(text));
    const Target newer = target_of(fmt::format("{}+ptx90", text));
    EXPECT_EQ(to_text(newer), fmt::format("{}+ptx90", text));
    EXPECT_EQ(target_of(to_text(newer)), newer);
    EXPECT_NE(newer, target_of(text));
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), std::size(lowest));
}

TEST(GpuTarget, RefusesWhatDoesNotExist) {
  for (const char* text :
       {"sm_81", "sm_86a", "sm_90b", "sm_100+ptx85", "sm_80+ptx79", "sm_90+ptx89", "sm_90+ptx91", "sm_90+", "sm_90 "}) {
    const auto target = parse_target(text);
    ASSERT_FALSE(target.ok()) << text;
    EXPECT_EQ(target.error().kind, ErrorKind::user);
  }
  EXPECT_NE(parse_target("sm_1").error().remedy.find("sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_120, x86-64"),
            std::string::npos);
}

// An 'a' target is never taken for its base or for a later one.
TEST(GpuTarget, EachTargetHasKeysOfItsOwn) {
  std::set<std::string> keys, entries;
  for (const Target& target : gpu_targets()) {
    const Plan plan = *make_plan(spec_of("width=512,head_size=128"), *parse_schedule("lanes=16,vector=8"), target);
    keys.insert(artifact_key(plan, "test"));
    entries.insert(entry_name(plan));
  }
  EXPECT_EQ(keys.size(), gpu_targets().size());
  EXPECT_EQ(entries.size(), gpu_targets().size());
}

TEST(GpuSchedule, TextRoundTrips) {
  GpuSchedule s;
  s.lanes = 8;
  s.vector_elements = 4;
  s.block_threads = 256;
  s.groups = 2;
  s.rows = 3;
  s.residency = Residency::shared;
  s.unroll = 5;
  s.grid = GridForm::persistent;
  s.weights = WeightLoad::before;
  s.access_bytes = 8;
  const std::string text =
      "lanes=8,vector=4,block=256,groups=2,rows=3,residency=shared,unroll=5,grid=persistent,weights=before,access=8";
  EXPECT_EQ(to_text(Schedule(s)), text);
  EXPECT_EQ(std::get<GpuSchedule>(*parse_schedule(text)), s);
  EXPECT_EQ(std::get<GpuSchedule>(*parse_schedule("lanes=32")), GpuSchedule{});
  s.cluster = 8;
  s.staging = Staging::bulk;
  s.stages = 3;
  s.cache = CacheUse::stream;
  s.launch = LaunchForm::weights_ahead;
  const std::string longer = text + ",cluster=8,staging=bulk,stages=3,cache=stream,launch=weights_ahead";
  EXPECT_EQ(to_text(Schedule(s)), longer);
  EXPECT_EQ(std::get<GpuSchedule>(*parse_schedule(longer)), s);
  for (const char* bad : {"lanes=8,lanes=8", "lanes=8,residency=l2", "lanes=8,grid=2", "lanes=8,weights=never", "lanes=8,depth=2",
                          "lanes=8,staging=tma", "lanes=8,cache=l2", "lanes=8,launch=now"})
    EXPECT_FALSE(parse_schedule(bad).ok()) << bad;
}

TEST(GpuPlan, TilesAreGroupsOfARowAndRows) {
  struct Case {
    const char* spec;
    const char* schedule;
    int groups, rows, threads;
    std::int64_t tiles_of_10_rows;
  };
  const Case cases[] = {
      {"width=4096,head_size=256", "lanes=32", 4, 1, 128, 40},
      {"width=1280,head_size=256", "lanes=32", 1, 4, 128, 15},  // 5 groups: no 2, 3 or 4 of them fill a row
      {"width=1280,head_size=256", "lanes=32,block=256", 5, 1, 160, 10},
      {"width=1152,head_size=288", "lanes=4", 4, 8, 128, 2},
      {"width=1152,head_size=288", "lanes=4,groups=2", 2, 16, 128, 2},
      {"width=1152,head_size=288", "lanes=4,rows=4", 4, 4, 64, 3},
      {"width=1152,head_size=288", "lanes=4,groups=2,rows=3", 2, 3, 32, 8},  // 24 threads, in a whole warp
      {"width=4096,head_size=256,gate=seednorm,seed_heads=1", "lanes=32", 1, 1, 512, 10},
  };
  for (const Case& c : cases) {
    const auto plan = plan_of(c.spec, c.schedule);
    ASSERT_TRUE(plan.ok()) << c.schedule << ": " << plan.error().message;
    EXPECT_EQ(plan->gpu().groups_per_tile, c.groups) << c.spec << " " << c.schedule;
    EXPECT_EQ(plan->gpu().rows_per_tile, c.rows) << c.spec << " " << c.schedule;
    EXPECT_EQ(plan->gpu().block_threads, c.threads) << c.spec << " " << c.schedule;
    EXPECT_EQ(tile_count(*plan, 10), c.tiles_of_10_rows) << c.spec << " " << c.schedule;
  }
}

TEST(GpuPlan, SchedulesOfOneKernelAreOneSchedule) {
  const std::pair<const char*, const char*> same[] = {
      {"lanes=32", "lanes=32,groups=4,rows=1,unroll=1"},
      {"lanes=32,residency=reload", "lanes=32,residency=registers"},  // one chunk: nothing to loop over
      {"lanes=32,residency=shared,weights=before", "lanes=32,weights=before"},
      {"lanes=8,residency=shared,weights=before", "lanes=8,residency=shared"},      // a loop reads its weights in its turns
      {"lanes=8,unroll=16", "lanes=8,unroll=4"},                                    // four chunks
      {"lanes=8,residency=reload,unroll=16", "lanes=8,residency=reload,unroll=2"},  // of two turns at least
      {"lanes=32,block=96,groups=8,rows=2", "lanes=32,block=512,groups=8,rows=2"},
      {"lanes=32,vector=4,access=16", "lanes=32,vector=4,access=8"},
  };
  for (const auto& [a, b] : same) {
    const auto first = plan_of("width=4096,head_size=256", a), second = plan_of("width=4096,head_size=256", b);
    ASSERT_TRUE(first.ok() && second.ok()) << a << " " << b;
    EXPECT_EQ(to_text(first->schedule), to_text(second->schedule));
    EXPECT_EQ(artifact_key(*first, "test"), artifact_key(*second, "test"));
  }
  const auto plain = plan_of("width=4096,head_size=256,weight=none", "lanes=32,weights=before");
  EXPECT_EQ(plain->gpu_schedule().weights, WeightLoad::after);  // there are none
}

TEST(GpuPlan, WeightsStayWhereATileHoldsWholeRows) {
  const char* spec = "width=4096,head_size=256";
  EXPECT_TRUE(plan_of(spec, "lanes=32,groups=16,grid=persistent,weights=before")->gpu().weights_stay);
  EXPECT_FALSE(plan_of(spec, "lanes=32,groups=8,grid=persistent,weights=before")->gpu().weights_stay);
  EXPECT_FALSE(plan_of(spec, "lanes=32,groups=16,weights=before")->gpu().weights_stay);
  EXPECT_FALSE(plan_of(spec, "lanes=32,groups=16,grid=persistent")->gpu().weights_stay);
}

TEST(GpuPlan, SharedResidencyKeepsUAsItIsExact) {
  const auto bytes = [](const std::string& spec) {
    return plan_of("width=4096,head_size=4096," + spec, "lanes=128,residency=shared,groups=1,rows=1")->gpu().dynamic_shared_bytes;
  };
  EXPECT_EQ(bytes("x=bf16"), 8192);
  EXPECT_EQ(bytes("x=f32"), 16384);
  EXPECT_EQ(bytes("x=f32,residual=add:bf16"), 8192);
  EXPECT_EQ(bytes("x=bf16,residual=add:f32"), 16384);
  EXPECT_EQ(bytes("x=bf16,residual=add:bf16,norm_input=unrounded"), 16384);
}

// What a target has of shared memory decides how long a part may be; reload takes every length.
TEST(GpuPlan, PartsTooLongForSharedMemoryAreRefusedWithTheLimit) {
  const std::pair<const char*, int> limits[] = {{"sm_80", 163},  {"sm_86", 99},   {"sm_89", 99},    {"sm_90", 227},
                                                {"sm_90a", 227}, {"sm_100", 227}, {"sm_100a", 227}, {"sm_120", 99}};
  for (const auto& [target, kib] : limits) {
    for (const int width : {12288, 65536, 131072, 1048576}) {
      const std::string spec = fmt::format("width={0},head_size={0},x=f32,residual=add:f32", width);
      const auto shared = plan_of(spec, "lanes=512,vector=4,residency=shared", target);
      const std::int64_t needed = std::int64_t{4} * width + 16 * 4;
      EXPECT_EQ(shared.ok(), needed <= std::int64_t{kib} * 1024) << target << " " << width;
      if (!shared.ok()) {
        EXPECT_NE(shared.error().message.find(fmt::format("{} has {}", target, kib * 1024)), std::string::npos)
            << shared.error().message;
        EXPECT_NE(shared.error().message.find("residency=reload"), std::string::npos);
      }
      EXPECT_TRUE(plan_of(spec, "lanes=512,vector=4,residency=reload", target).ok());
    }
  }
}

TEST(GpuPlan, RefusesWithTheRule) {
  struct Case {
    const char* schedule;
    const char* target;
    const char* message;
    const char* remedy;
  };
  const Case cases[] = {
      {"lanes=48", "sm_90", "lanes=48", ""},
      {"lanes=2048", "sm_90", "lanes=2048", ""},
      {"lanes=512", "sm_90", "half of the lanes", ""},
      {"lanes=32,vector=3", "sm_90", "vector=3", ""},
      {"lanes=32,block=1056", "sm_90", "block=1056", ""},
      {"lanes=32,groups=3", "sm_90", "groups=3: does not divide the 16 groups", ""},
      {"lanes=32,groups=16,rows=3", "sm_90", "takes 1536 threads, a block has at most 1024", ""},
      {"lanes=1,rows=1025", "sm_90", "rows=1025", ""},
      {"lanes=8,unroll=17", "sm_90", "unroll=17", ""},
      {"lanes=32,access=12", "sm_90", "access=12", ""},
      {"lanes=1,groups=1,rows=32", "sm_90", "residency=registers: a lane would keep 256 elements", "docs/schedules.md"},
      {"lanes=2,groups=16,rows=1,weights=before", "sm_90", "weights=before: a lane would keep 128 registers of u and 64", ""},
      {"lanes=4,vector=1,groups=16,rows=8,weights=before,access=2", "sm_80", "64 registers of u and 64 of weights, at most 96", ""},
      {"lanes=1,groups=16,rows=64,residency=reload,unroll=16", "sm_80", "unroll=16: a lane would load 128 registers", ""},
      {"lanes=4,groups=16,rows=16", "sm_90", "at most 32 fit with 1024 threads", "docs/schedules.md"},
      {"lanes=16,vector=16,access=32", "sm_90", "access=32: an access of sm_90 is at most 16 bytes", "+ptx88"},
      {"lanes=16,vector=16,access=32", "sm_90+ptx90", "access=32: an access of sm_90+ptx90", "sm_100"},
      {"lanes=16,vector=16,access=32", "sm_100+ptx87", "access=32: an access of sm_100+ptx87", "+ptx88"},
      {"lanes=16,vector=16,access=32", "sm_120", "access=32", "+ptx88"},
  };
  for (const Case& c : cases) {
    const char* spec = "width=4096,head_size=256";
    const auto plan = plan_of(spec, c.schedule, c.target);
    ASSERT_FALSE(plan.ok()) << c.schedule << " " << c.target;
    EXPECT_EQ(plan.error().kind, ErrorKind::user);
    EXPECT_NE(plan.error().message.find(c.message), std::string::npos) << plan.error().message;
    EXPECT_NE(plan.error().remedy.find(c.remedy), std::string::npos) << plan.error().remedy;
  }
}

TEST(GpuPlan, ARoundedUIsKeptBesideWeights) {
  const auto plan_with = [](const char* residual) {
    return plan_of(std::string("width=8192,head_size=256,residual=") + residual,
                   "lanes=4,vector=8,groups=32,rows=4,weights=before");
  };
  const auto refused = plan_with("add:bf16");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("96 registers of u and 32 of weights, at most 112"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(plan_with("add:f32").ok());  // stored as it is
}

// Narrow accesses take a register for each element.
TEST(GpuPlan, TheUnalignedTwinOfAFullThreadReadsItsWeightsLater) {
  const auto plan = plan_of("width=4096,head_size=256", "lanes=4,vector=8,groups=16,rows=8,weights=before");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto twin = make_plan(plan->spec, unaligned_schedule(*plan), plan->target);
  ASSERT_TRUE(twin.ok()) << twin.error().message;
  EXPECT_EQ(twin->gpu_schedule().weights, WeightLoad::after);
  EXPECT_EQ(twin->gpu().chunks, plan->gpu().chunks);
}

TEST(GpuPlan, ClustersShareAPart) {
  const auto plan = plan_of("width=4096,head_size=4096", "lanes=64,vector=8,rows=1,cluster=4");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const GpuPlan& shape = plan->gpu();
  EXPECT_EQ(shape.part_lanes(), 256);
  EXPECT_EQ(shape.chunks, 2);
  EXPECT_TRUE(shape.exact);
  EXPECT_EQ(shape.shared_bytes, 4 * (2 + 4));  // sums of two warps, then of four blocks
  EXPECT_EQ(tile_count(*plan, 10) * 4, grid_blocks(*plan, 10));
  EXPECT_EQ(shape.max_rows_per_launch, 0x7fffffff / 4 * shape.rows_per_tile);
}

TEST(GpuPlan, StagesHoldTilesAsTheyStandInMemory) {
  const char* spec = "width=864,head_size=288,residual=add:f32";
  const auto plan = plan_of(spec, "lanes=8,vector=8,groups=3,rows=1,staging=async,grid=persistent,stages=3");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  // Four parts of room, three of them with parts of their own: five chunks of 64 elements each.
  EXPECT_EQ(plan->gpu().block_part_elements(), 320);
  EXPECT_EQ(stage_offset(*plan, Operand::residual), 4 * 320 * 2);
  EXPECT_EQ(plan->gpu().stage_bytes, 4 * 320 * (2 + 4));
  EXPECT_EQ(plan->gpu().dynamic_shared_bytes, 3 * plan->gpu().stage_bytes);
  EXPECT_EQ(plan->gpu().shared_bytes, 0);
  const auto bulk = plan_of(spec, "lanes=8,vector=8,staging=bulk,grid=persistent", "sm_90+ptx80");
  ASSERT_TRUE(bulk.ok()) << bulk.error().message;
  EXPECT_EQ(bulk->gpu().shared_bytes, 2 * 8);  // a barrier for each stage
  EXPECT_EQ(bulk->gpu_schedule().stages, 2);
  const auto once = plan_of(spec, "lanes=8,vector=8,staging=bulk,stages=4", "sm_90+ptx80");
  EXPECT_EQ(once->gpu_schedule().stages, 1);
  EXPECT_EQ(unaligned_schedule(*once), Schedule(std::get<GpuSchedule>(*parse_schedule(
                                           to_text(plan_of(spec, "lanes=8,vector=8,access=2", "sm_90+ptx80")->schedule)))));
}

TEST(GpuPlan, FieldsOfMovementWithoutEffectHaveOneValue) {
  const std::pair<const char*, const char*> same[] = {
      {"lanes=32,stages=4", "lanes=32"},
      {"lanes=32,launch=weights_ahead", "lanes=32,launch=dependent"},  // weights are read behind the statistic
      {"lanes=32,groups=8,grid=persistent,weights=before,launch=weights_ahead",
       "lanes=32,groups=8,grid=persistent,weights=before,launch=dependent"},  // and here for each tile anew
  };
  for (const auto& [a, b] : same) {
    const auto first = plan_of("width=4096,head_size=256", a), second = plan_of("width=4096,head_size=256", b);
    ASSERT_TRUE(first.ok() && second.ok()) << a << " " << b;
    EXPECT_EQ(to_text(first->schedule), to_text(second->schedule));
  }
}

TEST(GpuPlan, MovementIsRefusedWithTheRule) {
  struct Case {
    const char* schedule;
    const char* target;
    const char* message;
  };
  const Case cases[] = {
      {"lanes=32,cluster=3", "sm_90", "cluster=3: must be 1, 2, 4, 8 or 16"},
      {"lanes=32,cluster=32", "sm_90", "cluster=32"},
      {"lanes=4,cluster=8,groups=1", "sm_90", "cluster=8: is more than the 4 lanes"},
      {"lanes=32,cluster=2", "sm_80", "sm_80 does not have the instructions; they need sm_90"},
      {"lanes=32,vector=8,cluster=16", "sm_90", "cluster=16: half of the lanes"},
      {"lanes=32,staging=bulk", "sm_90", "PTX 8.0"},
      {"lanes=32,staging=bulk", "sm_80+ptx90", "staging=bulk"},
      {"lanes=32,staging=bulk,access=8", "sm_90+ptx80", "copies at least 16 bytes at a time, and accesses of x are 8"},
      {"lanes=32,staging=async,access=2", "sm_80", "copies at least 4 bytes"},
      {"lanes=32,staging=async,stages=9", "sm_80", "stages=9"},
      {"lanes=32,staging=async,stages=1,grid=persistent", "sm_80", "stages=1: leaves no room for the next tile"},
      {"lanes=32,vector=8,groups=1,rows=1,staging=async,residency=reload", "sm_80", "residency=reload"},
      {"lanes=1,rows=32,groups=16,staging=async,residency=shared", "sm_86", "shared memory of sm_86"},
      {"lanes=32,cache=stream", "sm_80", "PTX 7.4"},
      {"lanes=32,launch=dependent", "sm_89", "launch=dependent: sm_89 does not have"},
  };
  for (const Case& c : cases) {
    const auto plan = plan_of("width=16384,head_size=1024", c.schedule, c.target);
    ASSERT_FALSE(plan.ok()) << c.schedule << " " << c.target;
    EXPECT_EQ(plan.error().kind, ErrorKind::user);
    EXPECT_NE(plan.error().message.find(c.message), std::string::npos) << plan.error().message;
  }
  const auto share = plan_of("width=264,head_size=264", "lanes=16,vector=8,cluster=4,staging=bulk", "sm_90+ptx80");
  ASSERT_FALSE(share.ok());
  EXPECT_NE(share.error().message.find("a share of the part for every block"), std::string::npos) << share.error().message;
}

// A part that one block cannot keep is shared by the smallest cluster that can; where there are no clusters it is read again.
TEST(GpuPlan, WidePartsAreSharedByDefault) {
  struct Case {
    int width, cluster;
    Residency residency;
  };
  for (const Case& c :
       {Case{32768, 1, Residency::registers}, Case{65536, 2, Residency::registers}, Case{131072, 4, Residency::registers},
        Case{262144, 8, Residency::registers}, Case{524288, 8, Residency::shared}, Case{1048576, 8, Residency::reload}}) {
    const KernelSpec spec = spec_of(fmt::format("width={0},head_size={0}", c.width));
    const auto schedule = std::get<GpuSchedule>(default_schedule(spec, target_of("sm_90")));
    EXPECT_EQ(schedule.cluster, c.cluster) << c.width;
    EXPECT_EQ(schedule.residency, c.residency) << c.width;
    const auto older = std::get<GpuSchedule>(default_schedule(spec, target_of("sm_80")));
    EXPECT_EQ(older.cluster, 1);
    EXPECT_EQ(older.residency, c.width <= 32768 ? Residency::registers : Residency::reload) << c.width;
  }
}

TEST(GpuPlan, WideAccessesAskForTheirAlignment) {
  const auto plan =
      plan_of("width=4096,head_size=256,residual=add:f32,weight=channel:f32", "lanes=16,vector=16,access=32", "sm_100+ptx88");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  for (Operand operand : {Operand::x, Operand::residual, Operand::gamma, Operand::y})
    EXPECT_EQ(operand_access_bytes(*plan, operand), 32) << to_text(operand);
  const auto odd = plan_of("width=4104,head_size=456", "lanes=16,vector=16,access=32", "sm_100+ptx88");
  EXPECT_EQ(odd->gpu().access_bytes, 16);  // 912 bytes a part
  const auto unaligned = make_plan(plan->spec, unaligned_schedule(*plan), plan->target);
  EXPECT_EQ(unaligned->gpu().access_bytes, 2);
}

TEST(GpuPlan, DefaultsAreLegalAndCanonicalOnEveryTarget) {
  for (const Target& target : gpu_targets()) {
    for (int d : {1, 8, 64, 72, 128, 192, 208, 256, 288, 304, 352, 512, 1152, 4096, 65536, 1048576}) {
      for (const char* dtypes : {"x=bf16", "x=f32,residual=add:f32", "x=f16,gate=seednorm"}) {
        const KernelSpec spec = spec_of(fmt::format("width={},head_size={},{}", d <= 4096 ? 4 * d : d, d, dtypes));
        const auto plan = make_plan(spec, default_schedule(spec, target), target);
        ASSERT_TRUE(plan.ok()) << to_text(spec) << " " << to_text(target) << ": " << plan.error().message;
        EXPECT_EQ(make_plan(spec, plan->schedule, target)->schedule, plan->schedule);
        EXPECT_LE(plan->gpu().shared_bytes + plan->gpu().dynamic_shared_bytes, target.max_shared_bytes());
      }
    }
  }
}

}  // namespace
}  // namespace headnorm
