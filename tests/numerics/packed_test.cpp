// Arithmetic of two elements at a time rounds each as its own would: a plan has the same bits on targets that have it and on those
// that have not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/random_launches.h"

namespace headnorm::test {
namespace {

constexpr const char* kSpecs[] = {
    "width=512,head_size=128",
    "width=576,head_size=144,residual=add:bf16,gate=seednorm,weight_offset=1",
    "width=576,head_size=144,x=f16,y=f16,weight=channel:f16,residual=inplace:f16,gate=seednorm,seed_heads=1",
    "width=512,head_size=512,x=f32,y=f32,weight=channel:f32,residual=add:f32,residual_scale=0.7,norm_input=unrounded",
    "width=480,head_size=96,residual=add:f16,rounding=llama,weight=head:f32,gate=seednorm,sigma=softsign",
    "width=384,head_size=192,x=f16,residual=add:f32,gate=seednorm,mode=safe-range,weight=shared:bf16",
    "width=270,head_size=45,weight=none,x=f32,y=bf16",
};
constexpr const char* kSchedules[] = {
    "lanes=8,vector=2,weights=before",
    "lanes=4,vector=8,grid=persistent,weights=before,access=4",
    "lanes=2,vector=4,residency=shared,unroll=2",
    "lanes=2,vector=8,residency=reload",
    "lanes=2,vector=16",
};

LaunchTensors tensors_of(const KernelSpec& spec, std::int64_t rows) {
  Layout layout;
  if (spec.residual == Residual::inplace) layout.alias = Alias::inplace;
  LaunchTensors tensors(spec, rows, layout);
  Random random(5);
  fill_random(random, tensors);
  tensors.seal();
  return tensors;
}

class Packed : public testing::TestWithParam<const char*> {
 protected:
  // What a launch of the schedule gives on a target, with or without packed arithmetic.
  void run(const KernelSpec& spec, const Schedule& schedule, const char* target, bool is_packed, LaunchTensors& tensors) {
    const Plan plan = *make_plan(spec, schedule, *parse_target(target));
    ASSERT_EQ(plan.gpu().packed, is_packed);
    const Artifact artifact = *backend_->compile(plan);
    ASSERT_EQ(artifact.bytes.find(".rn.f32x2") != std::string::npos, is_packed);
    const Result<emulator::Counters> ran = run_emulated(artifact, plan, tensors, {}, 0);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    ASSERT_EQ(tensors.damage(), "");
  }

  std::unique_ptr<CodegenBackend> backend_ = make_llvm_backend();
};

TEST_P(Packed, HasTheBitsOfTheScalarForm) {
  const KernelSpec spec = *parse_spec(GetParam());
  int compared = 0;
  for (const char* text : kSchedules) {
    const Schedule schedule = *parse_schedule(text);
    const Result<Plan> plan = make_plan(spec, schedule, make_gpu_target(90));
    if (!plan.ok()) continue;  // more lanes or bytes than the part has
    SCOPED_TRACE(text);
    const std::int64_t rows = 2 * plan->gpu().rows_per_tile + 1;
    LaunchTensors scalar = tensors_of(spec, rows);
    run(spec, schedule, "sm_90", false, scalar);
    for (const char* target : {"sm_100", "sm_100a+ptx88"}) {
      LaunchTensors packed = tensors_of(spec, rows);
      run(spec, schedule, target, true, packed);
      if (HasFatalFailure()) return;
      EXPECT_TRUE(same_outputs(scalar, packed)) << target;
      ++compared;
    }
  }
  EXPECT_GE(compared, 6);
}

// A vector of one element has no pairs.
TEST(PackedPlan, NeedsTwoElementsAndATargetThatHasPairs) {
  const KernelSpec spec = *parse_spec("width=512,head_size=128");
  const auto is_packed = [&](const char* schedule, const char* target) {
    return make_plan(spec, *parse_schedule(schedule), *parse_target(target))->gpu().packed;
  };
  EXPECT_TRUE(is_packed("lanes=32,vector=2", "sm_100"));
  EXPECT_FALSE(is_packed("lanes=32,vector=1", "sm_100"));
  EXPECT_FALSE(is_packed("lanes=32,vector=2", "sm_120"));
  EXPECT_FALSE(is_packed("lanes=32,vector=2", "sm_90+ptx90"));
}

INSTANTIATE_TEST_SUITE_P(Specs, Packed, testing::ValuesIn(kSpecs), [](const auto& test) { return fmt::format("{}", test.index); });

}  // namespace
}  // namespace headnorm::test
