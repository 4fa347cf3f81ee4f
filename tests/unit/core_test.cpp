// Canonical texts, dtypes and plans.
#include <gtest/gtest.h>

#include <cmath>

#include "core/counted.h"
#include "core/plan.h"

namespace headnorm {
namespace {

TEST(Counted, TheNounFollowsTheNumber) {
  EXPECT_EQ(counted(0, "record"), "0 records");
  EXPECT_EQ(counted(1, "record"), "1 record");
  EXPECT_EQ(counted(std::size_t{2}, "damaged file"), "2 damaged files");
  EXPECT_EQ(counted(std::int64_t{-1}, "row"), "-1 rows");
}

KernelSpec wide_vit() {
  KernelSpec spec;
  spec.width = 4096;
  spec.head_size = 256;
  return spec;
}

TEST(Dtype, EveryBf16AndF16RoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float bf16 = float_from_bf16(half), f16 = float_from_f16(half);
    if (!std::isnan(bf16)) {
      EXPECT_EQ(bf16_from_float(bf16), half);
    }
    if (!std::isnan(f16)) {
      EXPECT_EQ(f16_from_float(f16), half) << bits;
    }
    EXPECT_EQ(std::isnan(float_from_bf16(bf16_from_float(bf16))), std::isnan(bf16));
    EXPECT_EQ(std::isnan(float_from_f16(f16_from_float(f16))), std::isnan(f16));
  }
}

TEST(Dtype, RoundsToNearestEven) {
  EXPECT_EQ(float_from_bf16(bf16_from_float(1.00390625f)), 1.0f);       // a tie goes to even
  EXPECT_EQ(float_from_bf16(bf16_from_float(1.01171875f)), 1.015625f);  // a tie goes to even, upwards
  EXPECT_EQ(round_to_dtype(65519.9, Dtype::f16), 65504.0);
  EXPECT_TRUE(std::isinf(round_to_dtype(65520.0, Dtype::f16)));
  EXPECT_EQ(round_to_dtype(0x1p-25 * 1.01, Dtype::f16), 0x1p-24);  // subnormal
}

TEST(KernelSpec, TextRoundTrips) {
  KernelSpec spec = wide_vit();
  spec.residual = Residual::add;
  spec.residual_dtype = Dtype::f32;
  spec.gate = Gate::seednorm;
  spec.seed_heads = 16;
  spec.seed_scale = 1.0 / 256;
  const auto made = make_spec(spec);
  ASSERT_TRUE(made.ok());
  const auto parsed = parse_spec(to_text(*made));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(*parsed, *made);
  EXPECT_EQ(to_text(*made),
            "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,residual=add:f32,gate=seednorm,seed_heads=16,"
            "seed_scale=0.00390625");
}

TEST(KernelSpec, RefusesWithTheNearestChoices) {
  KernelSpec spec = wide_vit();
  spec.width = 1152;
  const auto made = make_spec(spec);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "head size 256 does not divide width 1152");
  EXPECT_NE(made.error().remedy.find("288"), std::string::npos);
}

TEST(KernelSpec, AutoHeadSizeIsNearest256) {
  const std::pair<int, int> expected[] = {{192, 192},  {384, 192},  {640, 320},  {768, 256},  {1024, 256},
                                          {1152, 288}, {1280, 256}, {1408, 352}, {1536, 256}, {1664, 208},
                                          {2048, 256}, {2432, 304}, {4096, 256}, {8192, 256}};
  for (auto [width, head_size] : expected) EXPECT_EQ(*auto_head_size(width), head_size) << width;
  EXPECT_FALSE(auto_head_size(1001).ok());
}

TEST(Schedule, TextRoundTrips) {
  HostSchedule host;
  host.form = HostForm::pipe;
  host.prefetch = Prefetch::nta;
  host.prefetch_at = PrefetchAt::read;
  host.prefetch_bytes = 4096;
  EXPECT_EQ(std::get<HostSchedule>(*parse_schedule(to_text(Schedule(host)))), host);
  GpuSchedule gpu;
  gpu.lanes = 8;
  gpu.residency = Residency::reload;
  EXPECT_EQ(std::get<GpuSchedule>(*parse_schedule(to_text(Schedule(gpu)))), gpu);
  EXPECT_FALSE(parse_schedule("block=64").ok());
  EXPECT_FALSE(parse_schedule("form=split,block=64,block=64").ok());
}

TEST(Schedule, TheTargetSaysWhichKindATextIsThatNamesNone) {
  const auto gpu = parse_schedule("vector=3", TargetKind::gpu);
  ASSERT_TRUE(gpu.ok()) << gpu.error().message;
  EXPECT_EQ(std::get<GpuSchedule>(*gpu).vector_elements, 3);
  const auto host = parse_schedule("block=64,store=plain", TargetKind::host);
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(std::get<HostSchedule>(*host).block_bytes, 64);
  EXPECT_EQ(parse_schedule("vector=3", TargetKind::host).error().message, "'vector' is not a field of a host schedule");
  EXPECT_TRUE(std::holds_alternative<HostSchedule>(*parse_schedule("form=rot", TargetKind::gpu))) << "make_plan names the mismatch";
  for (const char* text : {"fast", ""}) {
    const auto none = parse_schedule(text, TargetKind::gpu);
    ASSERT_FALSE(none.ok()) << text;
    EXPECT_NE(none.error().message.find("is not a schedule"), std::string::npos) << none.error().message;
    EXPECT_NE(none.error().remedy.find("lanes="), std::string::npos) << none.error().remedy;
  }
}

TEST(Target, Aarch64HasItsOwnFacts) {
  const Target target = *parse_target("aarch64");
  EXPECT_EQ(to_text(target), "aarch64");
  EXPECT_EQ(target.vector_bytes(), 16);
  EXPECT_EQ(target.vector_registers(), 32);
  EXPECT_TRUE(target.has_fma() && target.has_native_f16());
  EXPECT_FALSE(target.has_native_bf16() || target.has_avx512() || target.streaming_needs_fence());
  KernelSpec spec;
  spec.width = spec.head_size = 256;
  HostSchedule schedule;
  const auto plan = make_plan(spec, schedule, target);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->host().y_alignment, 1) << "streaming stores of any alignment";
  schedule.rsqrt = RsqrtForm::newton;
  EXPECT_FALSE(make_plan(spec, schedule, target).ok());
}

TEST(Target, ThisProcessorRunsTheBestThatIsDetected) {
  EXPECT_TRUE(host_supports(kBaselineIsa));
  EXPECT_TRUE(host_supports(detect_host_isa()));
  EXPECT_EQ(make_host_target(detect_host_isa()), *parse_target("host"));
  EXPECT_FALSE(host_supports(HostIsa::x86_64) && host_supports(HostIsa::aarch64));
}

TEST(Plan, PartsAndGroups) {
  KernelSpec spec = wide_vit();
  spec.gate = Gate::seednorm;
  spec.seed_heads = 1;
  const auto plan = make_plan(spec, HostSchedule{}, make_host_target(HostIsa::x86_64_v4));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->part_elements, 256);
  EXPECT_EQ(plan->parts_per_group, 16);
  EXPECT_EQ(plan->groups_per_row, 1);
}

// Heads of `head_size` in a row, how many of them are handled side by side when `schedule` asks, and the line that decides it.
struct TileCase {
  std::int64_t head_size, heads;
  const char* schedule;
  int tile_parts;
  const char* why;
};

TEST(Plan, HeadsSideBySideAreLoweredToWhatFits) {
  const TileCase cases[] = {
      {8, 64, "form=split,heads=16", 16, "nothing"},
      {8, 12, "form=split,heads=16", 8, "the row"},
      {8, 12, "form=pipe,heads=16", 4, "a divisor of the row"},
      {64, 16, "form=rot,heads=16", 4, "registers: 16 of u and 4 of sums"},
      {256, 16, "form=split,heads=16", 4, "straight code of 64 vectors"},
      {512, 16, "form=split,heads=16", 1, "parts in a loop"},
  };
  for (const TileCase& c : cases) {
    KernelSpec spec;
    spec.width = c.head_size * c.heads;
    spec.head_size = c.head_size;
    const auto plan = make_plan(spec, *parse_schedule(c.schedule), make_host_target(HostIsa::x86_64_v4));
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->host().tile_parts, c.tile_parts) << c.schedule << " of heads of " << c.head_size << ": " << c.why;
    EXPECT_EQ(plan->host_schedule().heads, c.tile_parts);
  }
  KernelSpec spec;
  spec.width = 1024;
  spec.head_size = 64;
  EXPECT_FALSE(make_plan(spec, *parse_schedule("form=split,heads=3"), make_host_target(HostIsa::x86_64_v4)).ok());
}

TEST(Plan, TilesOfWholeLinesMayBeStreamed) {
  KernelSpec spec;
  spec.width = 1152;
  spec.head_size = 72;
  const Target target = make_host_target(HostIsa::x86_64_v4);
  EXPECT_FALSE(make_plan(spec, *parse_schedule("form=split,heads=1,store=nt,unpack=widen"), target).ok());
  EXPECT_TRUE(make_plan(spec, *parse_schedule("form=split,heads=2,store=nt,unpack=widen"), target).ok());
  EXPECT_EQ(std::get<HostSchedule>(default_schedule(spec, target)).store, StoreKind::nt);
  spec.width = 72 * 15;  // the last tile ends within a line
  EXPECT_FALSE(make_plan(spec, *parse_schedule("form=split,heads=2,store=nt,unpack=widen"), target).ok());
}

TEST(Plan, DefaultScheduleIsLegalEverywhere) {
  for (std::int64_t width : {1, 7, 64, 127, 384, 768, 1000, 1152, 2432, 4095, 4096, 8191, 65536}) {
    for (std::int64_t head_size : nearest_divisors(width, 256, 6)) {
      for (Dtype dtype : kDtypes) {
        for (std::int64_t seed_heads : {std::int64_t{0}, std::int64_t{1}, width / head_size}) {
          KernelSpec spec;
          spec.width = width;
          spec.head_size = head_size;
          spec.x_dtype = spec.y_dtype = spec.weight_dtype = dtype;
          if (seed_heads > 0) spec.gate = Gate::seednorm;
          spec.seed_heads = seed_heads;
          for (const char* text : {"sm_80", "sm_90", "sm_120", "x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16", "aarch64"}) {
            const Target target = *parse_target(text);
            const auto made = make_spec(spec);
            ASSERT_TRUE(made.ok()) << made.error().message;
            const auto plan = make_plan(*made, default_schedule(*made, target), target);
            const std::int64_t parts_per_group = seed_heads == 1 ? width / head_size : 1;
            if (target.kind == TargetKind::gpu && parts_per_group > 1024) {  // a group does not fit in a block
              ASSERT_FALSE(plan.ok());
              EXPECT_NE(plan.error().message.find("takes at most 1024 parts"), std::string::npos) << plan.error().message;
              continue;
            }
            EXPECT_TRUE(plan.ok()) << to_text(*made) << " on " << text << ": " << plan.error().message;
          }
        }
      }
    }
  }
}

// The canonical schedule of a plan is legal and canonical, at the largest shapes, too.
TEST(Plan, CanonicalScheduleIsAFixedPoint) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{1 << 20, 1 << 20}, {300000, 300000}, {1 << 20, 1}, {4096, 256},
                                                          {4096, 4096},       {1000, 8},        {7, 7}};
  for (auto [width, head_size] : shapes) {
    for (Dtype dtype : kDtypes) {
      KernelSpec spec;
      spec.width = width;
      spec.head_size = head_size;
      spec.x_dtype = spec.y_dtype = dtype;
      for (const char* text :
           {"form=split,block=1,store=plain", "form=split,block=5000,store=plain", "form=split,block=4194304,store=plain",
            "form=pipe,block=3000,store=plain", "lanes=32,vector=4,residency=reload"}) {
        const Schedule schedule = *parse_schedule(text);
        const Target target =
            std::holds_alternative<HostSchedule>(schedule) ? make_host_target(HostIsa::x86_64_v4) : make_gpu_target(90);
        const auto plan = make_plan(spec, schedule, target);
        if (!plan.ok()) continue;
        const auto again = make_plan(spec, plan->schedule, target);
        ASSERT_TRUE(again.ok()) << to_text(plan->schedule) << ": " << again.error().message;
        EXPECT_EQ(again->schedule, plan->schedule);
      }
      for (HostIsa isa : kHostIsas) {
        const Target target = make_host_target(isa);
        const auto plan = make_plan(spec, default_schedule(*make_spec(spec), target), target);
        EXPECT_TRUE(plan.ok()) << width << "/" << head_size << ": " << plan.error().message;
      }
    }
  }
}

// Wide rows on a GPU: a plan within what every block has, or a refusal that names the limit.
TEST(Plan, WideRowsFitInABlockOrAreRefused) {
  constexpr int kSharedBytes = 48 * 1024;  // what a block has without asking for more
  for (const std::int64_t width : {12288, 65536, 1 << 18, 1 << 20}) {
    for (const std::int64_t head_size : {width, width / 2, std::int64_t{256}}) {
      KernelSpec spec;
      spec.width = width;
      spec.head_size = head_size;
      spec.x_dtype = spec.y_dtype = spec.weight_dtype = spec.residual_dtype = Dtype::f32;
      spec.residual = Residual::add;
      spec.gate = Gate::seednorm;
      spec.seed_heads = 1;
      for (const Target& target : gpu_targets()) {
        const Result<Plan> plan = make_plan(spec, default_schedule(spec, target), target);
        if (plan.ok()) {
          EXPECT_LE(plan->gpu().shared_bytes, kSharedBytes) << to_text(plan->spec);
          EXPECT_LE(plan->gpu().block_threads, 1024) << to_text(plan->spec);
        } else {
          EXPECT_NE(plan.error().message.find("takes at most 1024 parts"), std::string::npos) << plan.error().message;
        }
      }
    }
  }
}

// 64 elements in the registers of each of 1024 threads are more than a block has.
TEST(Plan, RegistersOfABlockAreALimit) {
  KernelSpec spec;
  spec.width = spec.head_size = 65536;
  for (const Target& target : gpu_targets()) {
    const Result<Plan> plan = make_plan(spec, *parse_schedule("lanes=1024,vector=4,block=1024,residency=registers"), target);
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.error().message.find("residency=registers"), std::string::npos) << plan.error().message;
    EXPECT_FALSE(plan.error().remedy.empty());
  }
}

TEST(Plan, TooManyPartsIsALimitOfSpecAndTarget) {
  KernelSpec spec;
  spec.width = 1 << 20;
  spec.head_size = 8;
  spec.gate = Gate::seednorm;
  spec.seed_heads = 1;
  const auto plan =
      make_plan(spec, default_schedule(spec, make_host_target(HostIsa::x86_64_v3)), make_host_target(HostIsa::x86_64_v3));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().message,
            "a sum over 131072 parts of 8 elements (131072 heads, 1 seed heads): x86-64-v3 takes at most 65536 parts");
  EXPECT_NE(plan.error().remedy.find("--head-size"), std::string::npos);
}

}  // namespace
}  // namespace headnorm
