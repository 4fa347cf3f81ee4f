// Faults put into the text of right kernels that copy asynchronously, work in clusters or follow other kernels: each is found, as
// what it is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/random_launches.h"

namespace headnorm::test {
namespace {

constexpr std::int64_t kRows = 9;

class SeededFaults : public testing::Test {
 protected:
  // A kernel of rows of one part with a residual; persistent ones run in a few clusters, so that each has several tiles.
  void generate(const std::string& schedule, const char* target = "sm_90+ptx80") {
    plan_.emplace(
        *make_plan(*parse_spec("width=1024,head_size=1024,residual=add:bf16"), *parse_schedule(schedule), *parse_target(target)));
    whole_ = *make_llvm_backend()->compile(*plan_);
    ASSERT_EQ(finding(whole_.bytes), "") << "the kernel as it is";
  }

  // "" or the fault that the emulator finds in this text.
  std::string finding(const std::string& ptx) {
    Artifact artifact = whole_;
    artifact.bytes = ptx;
    LaunchTensors tensors(plan_->spec, kRows, {});
    Random random(3);
    fill_random(random, tensors);
    tensors.seal();
    const bool is_persistent = plan_->gpu_schedule().grid == GridForm::persistent;
    const auto ran = run_emulated(artifact, *plan_, tensors, options_, is_persistent ? 2 * plan_->gpu().cluster : 0);
    return ran.ok() ? "" : ran.error().message;
  }

  // The text with the first match of `pattern` (all of them with `first_only` unset) replaced.
  std::string edited(const std::string& pattern, const std::string& replacement,
                     std::regex_constants::match_flag_type which = std::regex_constants::format_default) const {
    std::string text = std::regex_replace(whole_.bytes, std::regex(pattern), replacement, which);
    EXPECT_NE(text, whole_.bytes) << pattern << " is not in the text";
    return text;
  }

  void expect_finding(const std::string& ptx, const std::string& rule, const std::string& what = "") {
    const std::string found = finding(ptx);
    EXPECT_NE(found.find("rule: " + rule), std::string::npos) << found;
    EXPECT_NE(found.find(what), std::string::npos) << found;
  }

  std::optional<Plan> plan_;
  Artifact whole_;
  emulator::LaunchOptions options_;
};

TEST_F(SeededFaults, AnAsynchronousCopyThatIsNotWaitedFor) {
  for (const char* schedule :
       {"lanes=32,vector=8,staging=async,residency=shared", "lanes=32,vector=8,staging=async,grid=persistent",
        "lanes=32,vector=8,staging=async,grid=persistent,stages=3,residency=shared"}) {
    generate(schedule);
    expect_finding(edited("cp\\.async\\.wait_group \\d+;", ""), "async_copy");
    // For one tile fewer than the one that is read next.
    const int allowed = plan_->gpu().stages > 1 ? plan_->gpu().stages : 1;
    expect_finding(edited("cp\\.async\\.wait_group \\d+;", fmt::format("cp.async.wait_group {};", allowed)), "async_copy");
  }
}

TEST_F(SeededFaults, ABulkCopyThatIsNotWaitedFor) {
  for (const char* schedule : {"lanes=32,vector=8,staging=bulk,residency=shared", "lanes=32,vector=8,staging=bulk,grid=persistent",
                               "lanes=32,vector=8,cluster=2,staging=bulk,grid=persistent,stages=3"}) {
    generate(schedule);
    expect_finding(edited("mbarrier\\.try_wait[^;]*;", "setp.eq.s32 %done, 0, 0;"), "async_copy");
  }
}

TEST_F(SeededFaults, AnotherNumberOfBytesThanIsCopied) {
  const std::string arrive = "(mbarrier\\.arrive\\.expect_tx[^;]*, )(%r\\d+);";
  for (const char* schedule : {"lanes=32,vector=8,staging=bulk", "lanes=32,vector=8,cluster=2,staging=bulk,grid=persistent"}) {
    generate(schedule);
    for (const char* bytes : {"16", "-16"})
      expect_finding(edited(arrive, fmt::format("add.s32 $2, $2, {}; $1$2;", bytes)), "async_copy", "promised");
  }
}

TEST_F(SeededFaults, AStageThatIsFilledWhileItIsRead) {
  generate("lanes=64,vector=8,staging=bulk,residency=shared,grid=persistent");
  // The barrier ahead of the next copy; those of the sums stand behind it.
  const std::size_t tile = whole_.bytes.find("%tile\n"), at = whole_.bytes.find("bar.sync", tile);
  ASSERT_NE(at, std::string::npos);
  std::string without = whole_.bytes;
  without.erase(at, without.find(';', at) + 1 - at);
  options_.order = emulator::Order::random;
  bool is_found = false;
  for (options_.seed = 0; options_.seed < 30 && !is_found; ++options_.seed)
    is_found = finding(without).find("rule: race") != std::string::npos;
  EXPECT_TRUE(is_found);
}

TEST_F(SeededFaults, MbarriersThatTheCopyEngineDoesNotSee) {
  generate("lanes=32,vector=8,staging=bulk");
  expect_finding(edited("fence\\.proxy\\.async[^;]*;", ""), "async_copy", "fence.proxy.async");
}

// The barriers of a persistent cluster in the order of the text: 0 arrive at the start; for each tile 1 wait until the places are
// free, 2 arrive and 3 wait with the sums, 4 arrive when they are added; 5 wait at the end.
TEST_F(SeededFaults, AClusterBarrierThatIsTakenOut) {
  generate("lanes=32,vector=8,cluster=4,grid=persistent");
  std::vector<std::size_t> barriers;
  for (std::size_t at = whole_.bytes.find("barrier.cluster."); at != std::string::npos;
       at = whole_.bytes.find("barrier.cluster.", at + 1))
    barriers.push_back(at);
  ASSERT_EQ(barriers.size(), 6u);
  const auto without = [&](std::vector<std::size_t> numbers) {
    std::string text = whole_.bytes;
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number)
      text.erase(barriers[*number], text.find(';', barriers[*number]) + 1 - barriers[*number]);
    return text;
  };
  options_.checks.initialised_memory = emulator::Check::off;  // which else notices the first of them first
  expect_finding(without({2, 3}), "race");
  expect_finding(without({0, 1, 4, 5}), "race");
  expect_finding(without({2}), "barrier");
  expect_finding(without({1}), "barrier");
}

TEST_F(SeededFaults, ASumHandedToAnotherBlocksPlace) {
  generate("lanes=32,vector=8,cluster=4");
  expect_finding(edited("(mapa\\.shared::cluster\\.u64[^;]*, )(%r\\d+);", "add.u32 $2, $2, 4; $1$2;"), "in_bounds");
}

// Producer and norm, the norm launched so that it may start early.
class SeededLaunchOrder : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::uint64_t kBytes = 4 * 1024 * sizeof(float);

  std::string finding(const std::string& ptx, const Plan& plan, bool starts_early = true) {
    emulator::Device device(emulator::Model::h200);
    const std::uint64_t x = device.allocate(kBytes), gamma = device.allocate(kBytes), y = device.allocate(kBytes);
    device.fill(gamma, kBytes, 0);
    const auto producer = device.load(kProducer), norm = device.load(ptx);
    EXPECT_TRUE(producer.ok() && norm.ok()) << norm.message();
    emulator::LaunchShape shape;
    shape.grid.x = 4;
    shape.block.x = 1024;
    for (const std::uint64_t written : {gamma, x}) {
      const auto facts = (*producer)->facts("produce");
      EXPECT_FALSE(device.launch(**producer, "produce", shape, emulator::pack_parameters(facts, {written})).fault);
      if (written == gamma) device.settle();
    }
    shape.grid.x = static_cast<std::uint32_t>(grid_blocks(plan, 4));
    shape.block.x = static_cast<std::uint32_t>(plan.gpu().block_threads);
    shape.dynamic_shared_bytes = static_cast<std::uint64_t>(plan.gpu().dynamic_shared_bytes);
    shape.starts_early = starts_early;
    const std::string name = (*norm)->kernel_names()[0];
    const auto result =
        device.launch(**norm, name, shape, emulator::pack_parameters((*norm)->facts(name), {x, gamma, y, 1024, 1024, 4}));
    return result.fault ? to_text(*result.fault) : "";
  }

  // p[i] = i, of 32-bit elements.
  static constexpr const char* kProducer = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry produce(.param .u64 p)
{
	.reg .b32 %t, %b, %i; .reg .f32 %v; .reg .b64 %p, %offset;
	ld.param.u64 %p, [p];
	mov.u32 %t, %tid.x;
	mov.u32 %b, %ctaid.x;
	mad.lo.u32 %i, %b, 1024, %t;
	mul.wide.u32 %offset, %i, 4;
	add.u64 %p, %p, %offset;
	cvt.rn.f32.u32 %v, %t;
	st.global.f32 [%p], %v;
	ret;
}
)";
};

TEST_P(SeededLaunchOrder, WhatIsReadAheadOfTheWaitIsFound) {
  const auto backend = make_llvm_backend();
  const Plan plan = *make_plan(*parse_spec("width=1024,head_size=1024,x=f32,y=f32,weight=channel:f32"), *parse_schedule(GetParam()),
                               *parse_target("sm_90+ptx80"));
  const std::string whole = backend->compile(plan)->bytes;
  EXPECT_EQ(finding(whole, plan), "");
  const std::string wait = "griddepcontrol.wait;";
  std::string without = whole;
  without.erase(without.find(wait), wait.size());
  const std::string found = finding(without, plan);
  EXPECT_NE(found.find("rule: launch_order"), std::string::npos) << found;
  EXPECT_NE(found.find("ahead of griddepcontrol.wait"), std::string::npos) << found;
  EXPECT_EQ(finding(without, plan, false), "") << "after a kernel that has ended";
  without.insert(without.rfind("ret;"), wait);
  EXPECT_NE(finding(without, plan).find("rule: launch_order"), std::string::npos) << "the wait at the end";
}

INSTANTIATE_TEST_SUITE_P(Schedules, SeededLaunchOrder,
                         testing::Values("lanes=32,vector=4,launch=dependent", "lanes=32,vector=4,launch=dependent,staging=bulk",
                                         "lanes=32,vector=4,launch=dependent,staging=async,grid=persistent",
                                         "lanes=32,vector=4,weights=before,launch=weights_ahead,cluster=2"));

}  // namespace
}  // namespace headnorm::test
