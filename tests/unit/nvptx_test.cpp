// The PTX backend: every plan of the grid lowers and assembles, the text has the structure that the plan promises, targets that
// LLVM would end the process on are refused, and the bytes depend on the plan alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "core/artifact.h"
#include "generator/generator.h"
#include "tests/support/ptx_grid.h"

namespace headnorm::test {
namespace {

constexpr std::size_t kSampledPlans = 120;  // of each target

// HEADNORM_TEST_SEED samples other plans.
std::uint32_t sample_seed() {
  const char* text = std::getenv("HEADNORM_TEST_SEED");
  return text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : kSampleSeed;
}

std::string compile(const Plan& plan) {
  static const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
  const Result<Artifact> artifact = backend->compile(plan);
  EXPECT_TRUE(artifact.ok()) << to_text(plan.spec) << ": " << artifact.error().message;
  return artifact.ok() ? artifact->bytes : "";
}

Plan plan_of(const std::string& spec_text, int sm, const std::string& schedule = "") {
  const KernelSpec spec = *parse_spec(spec_text);
  const Target target = make_gpu_target(sm);
  return *make_plan(spec, schedule.empty() ? default_schedule(spec, target) : *parse_schedule(schedule), target);
}

// The text of a kernel, as its instructions and directives are counted.
class PtxText {
 public:
  explicit PtxText(std::string text) : text_(std::move(text)) {}

  // Instructions whose opcode begins with `prefix`.
  int count(const std::string& prefix) const {
    std::istringstream lines(text_);
    int found = 0;
    for (std::string line, word; std::getline(lines, line);) {
      std::istringstream words(line);
      words >> word;
      if (word.starts_with('@')) words >> word;
      found += word.starts_with(prefix) ? 1 : 0;
      word.clear();
    }
    return found;
  }
  int block_threads() const { return sum_of(R"(\.reqntid (\d+))"); }
  int shared_bytes() const { return sum_of(R"(\.shared \.align \d+ \.b8 [^\[]*\[(\d+)\])"); }

 private:
  int sum_of(const char* pattern) const {
    const std::regex expression(pattern);
    int sum = 0;
    for (std::sregex_iterator at(text_.begin(), text_.end(), expression), end; at != end; ++at) sum += std::stoi((*at)[1]);
    return sum;
  }

  std::string text_;
};

PtxText text_of(const Plan& plan) { return PtxText(compile(plan)); }

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  while (const std::size_t count = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, count);
  return pclose(pipe) == 0 ? output : output + "\ncommand failed";
}

// One text of many kernels: one set of directives, then every entry.
std::string join(const std::vector<Plan>& plans) {
  std::string text;
  for (const Plan& plan : plans) {
    std::string ptx = compile(plan);
    const std::string directives = ".address_size 64";
    if (!text.empty()) ptx.erase(0, ptx.find(directives) + directives.size());
    text += ptx;
  }
  return text;
}

// What ptxas says of a kernel.
struct Assembled {
  std::string entry;
  int registers = 0, stack_bytes = 0, spilled_bytes = 0;
};

std::string name_of(const Target& target) {
  std::string name = to_text(target);
  std::replace(name.begin(), name.end(), '+', '_');
  return name;
}

class Assembly : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (std::string(HEADNORM_PTXAS).empty()) GTEST_SKIP() << "ptxas is not installed: the PTX is not assembled";
  }

  // In the order of the plans; none after a failure.
  static std::vector<Assembled> assemble(const std::vector<Plan>& plans) {
    const std::string path = fmt::format("{}/headnorm_nvptx_test_{}_{}", testing::TempDir(), getpid(), name_of(GetParam()));
    std::ofstream(path + ".ptx") << join(plans);
    const std::string output = output_of(
        fmt::format("'{0}' -arch={1} -v '{2}.ptx' -o '{2}.cubin' 2>&1", HEADNORM_PTXAS, processor_name(GetParam()), path));
    std::filesystem::remove(path + ".ptx");
    std::filesystem::remove(path + ".cubin");
    EXPECT_EQ(output.find("failed"), std::string::npos) << output;
    const std::regex pattern(
        "Function properties for (\\w+)\\s+(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads\\s+"
        "ptxas info\\s+: Used (\\d+) registers");
    std::map<std::string, Assembled> by_entry;
    for (std::sregex_iterator it(output.begin(), output.end(), pattern), end; it != end; ++it)
      by_entry[(*it)[1]] = {(*it)[1], std::stoi((*it)[5]), std::stoi((*it)[2]), std::stoi((*it)[3]) + std::stoi((*it)[4])};
    std::vector<Assembled> result;
    for (const Plan& plan : plans) result.push_back(by_entry[entry_name(plan)]);
    return result;
  }

  // docs/schedules.md: within 20 % or 8 registers for 90 % of the kernels of each target.
  static void expect_estimates(const std::vector<Plan>& plans, const std::vector<Assembled>& assembled) {
    std::size_t near = 0;
    std::string far;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const int estimate = plans[i].gpu().registers, used = assembled[i].registers;
      if (std::abs(estimate - used) <= std::max(8.0, 0.2 * used))
        ++near;
      else
        far += fmt::format("{} estimated, {} used: {} {}\n", estimate, used, to_text(plans[i].spec), to_text(plans[i].schedule));
    }
    EXPECT_GE(static_cast<double>(near), 0.9 * static_cast<double>(plans.size())) << far;
  }
};

TEST_P(Assembly, DefaultSchedulesSpillNothing) {
  const std::vector<Plan> plans = default_plans(GetParam());
  const std::vector<Assembled> assembled = assemble(plans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_GT(assembled[i].registers, 0) << to_text(plans[i].spec);
    EXPECT_TRUE(assembled[i].stack_bytes == 0 && assembled[i].spilled_bytes == 0) << to_text(plans[i].spec);
  }
  expect_estimates(plans, assembled);
}

TEST_P(Assembly, SchedulesOfAllKindsAssemble) {
  std::vector<Plan> plans = sampled_plans(GetParam(), kSampledPlans, sample_seed());
  const std::vector<Assembled> assembled = assemble(plans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_GT(assembled[i].registers, 0) << to_text(plans[i].schedule);
    EXPECT_EQ(assembled[i].spilled_bytes, 0) << to_text(plans[i].spec) << " " << to_text(plans[i].schedule);
  }
  expect_estimates(plans, assembled);
}

std::vector<Target> assembled_targets() {
  std::vector<Target> targets = gpu_targets();
  for (const char* newer : {"sm_80+ptx74", "sm_90+ptx80", "sm_100+ptx88", "sm_120+ptx90"}) targets.push_back(*parse_target(newer));
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Targets, Assembly, testing::ValuesIn(assembled_targets()),
                         [](const auto& test) { return name_of(test.param); });

class Structure : public testing::TestWithParam<int> {};

TEST_P(Structure, HeadPerWarp) {
  const PtxText ptx = text_of(plan_of("width=4096,head_size=256", GetParam()));
  EXPECT_EQ(ptx.block_threads(), 128);
  EXPECT_EQ(ptx.count("ld.global.v4.b32"), 1);     // x: 16 bytes a lane
  EXPECT_EQ(ptx.count("ld.global.nc.v4.b32"), 1);  // gamma
  EXPECT_EQ(ptx.count("ld.global"), 2);
  EXPECT_EQ(ptx.count("st.global.v4.b32"), 1);
  EXPECT_EQ(ptx.count("st."), 1);
  EXPECT_EQ(ptx.count("shfl.sync.bfly"), 5);
  EXPECT_EQ(ptx.count("bar."), 0);
  EXPECT_EQ(ptx.count("cvt.rn.bf16x2.f32"), 4);
  EXPECT_EQ(ptx.count("fma."), 8 + 1);  // u * u, mean: those of the program, and no other
  EXPECT_EQ(ptx.count("mul.rn.f32"), 8 + 8);
  EXPECT_EQ(ptx.count("mad."), ptx.count("mad.lo."));  // of integers, in addresses
}

TEST_P(Structure, SeedOverTheWidth) {
  const Plan plan = plan_of("width=4096,head_size=256,residual=add:bf16,gate=seednorm,seed_heads=1", GetParam());
  const PtxText ptx = text_of(plan);
  EXPECT_EQ(ptx.block_threads(), 512);
  EXPECT_EQ(ptx.count("shfl.sync.bfly"), 10);  // two sums over 32 lanes
  EXPECT_EQ(ptx.count("bar.sync"), 1);
  EXPECT_EQ(ptx.shared_bytes(), plan.gpu().shared_bytes);
  EXPECT_EQ(ptx.count("ld.global.v4.b32"), 2);     // x and residual: may be written over, never by way of the read-only cache
  EXPECT_EQ(ptx.count("ld.global.nc.v4.b32"), 3);  // beta, gamma, alpha
  EXPECT_EQ(ptx.count("st.global.v4.b32"), 2);
}

TEST_P(Structure, WideHeadMeetsOnceInSharedMemory) {
  const Plan plan = plan_of("width=8192,head_size=8192,gate=seednorm,seed_heads=1", GetParam());
  const PtxText ptx = text_of(plan);
  EXPECT_EQ(ptx.count("bar.sync"), 1);  // both sums share it
  EXPECT_EQ(ptx.shared_bytes(), plan.gpu().shared_bytes);
}

TEST_P(Structure, WiderWeightsAreReadInPieces) {
  const PtxText ptx = text_of(plan_of("width=4096,head_size=256,weight=channel:f32", GetParam()));
  EXPECT_EQ(ptx.count("ld.global.v4.b32"), 1);
  EXPECT_EQ(ptx.count("ld.global.nc.v4.b32"), 2);
}

TEST_P(Structure, AccessesAreAsNarrowAsTheScheduleSays) {
  const PtxText ptx = text_of(plan_of("width=4096,head_size=256", GetParam(), "lanes=32,vector=8,access=2"));
  EXPECT_EQ(ptx.count("ld.global.b16"), 8);
  EXPECT_EQ(ptx.count("ld.global.nc.b16"), 8);
  EXPECT_EQ(ptx.count("st.global.b16"), 8);
  EXPECT_EQ(ptx.count("ld.global"), 16);
}

// The order of the text is the order in which loads are issued.
TEST_P(Structure, WeightsAreReadWhereTheScheduleSays) {
  const auto ptx_of = [&](const std::string& rest) {
    return compile(plan_of("width=4096,head_size=256", GetParam(), "lanes=32,vector=8,groups=16," + rest));
  };
  const std::string after = ptx_of("weights=after"), before = ptx_of("weights=before");
  EXPECT_GT(after.find("ld.global.nc"), after.find("shfl.sync"));
  EXPECT_LT(before.find("ld.global.nc"), before.find("shfl.sync"));
  const std::string stay = ptx_of("weights=before,grid=persistent"), again = ptx_of("weights=after,grid=persistent");
  EXPECT_LT(stay.find("ld.global.nc"), stay.find("%tiles"));  // ahead of the loop
  EXPECT_GT(again.find("ld.global.nc"), again.find("shfl.sync"));
}

TEST_P(Structure, SharedMemoryTakesUAndGivesItBack) {
  const Plan plan = plan_of("width=65536,head_size=65536", GetParam(), "lanes=512,vector=8,block=512,residency=shared,unroll=4");
  EXPECT_EQ(plan.gpu().dynamic_shared_bytes, 131072);
  const PtxText ptx = text_of(plan);
  EXPECT_EQ(ptx.count("ld.global.v4.b32"), 4);
  EXPECT_EQ(ptx.count("st.shared.v4.b32"), 4);
  EXPECT_EQ(ptx.count("ld.shared.v4.b32"), 4);
  EXPECT_EQ(ptx.count("bar.sync"), 1);  // of the sum: a thread's own elements need none
}

TEST_P(Structure, ReloadReadsAgain) {
  const PtxText ptx = text_of(plan_of("width=65536,head_size=65536", GetParam(), "lanes=512,vector=8,block=512,residency=reload"));
  EXPECT_EQ(ptx.count("ld.global.v4.b32"), 8);  // four chunks at a time, in two loops
  EXPECT_EQ(ptx.count("bra"), 2 + 2);           // and around the publishing of sums, and for threads that do not store
}

TEST(Movement, ClustersMeetOnceForEachSum) {
  const std::string ptx = compile(plan_of("width=8192,head_size=8192", 90, "lanes=256,vector=8,cluster=4"));
  EXPECT_NE(ptx.find(".reqnctapercluster 4, 1, 1"), std::string::npos);
  const PtxText text(ptx);
  EXPECT_EQ(text.count("barrier.cluster.arrive"), 2);
  EXPECT_EQ(text.count("barrier.cluster.wait"), 2);
  EXPECT_EQ(text.count("st.shared::cluster"), 1);
  EXPECT_EQ(text.count("bar.sync"), 1);
  EXPECT_LT(ptx.find("barrier.cluster.arrive"), ptx.find("ld.global.v4"));  // early: its wait is short
}

TEST(Movement, AThreadCopiesWhatItReads) {
  const std::string ptx = compile(
      plan_of("width=4096,head_size=4096,residual=add:bf16", 80, "lanes=256,vector=8,staging=async,grid=persistent,stages=3"));
  const PtxText text(ptx);
  EXPECT_EQ(text.count("cp.async.cg.shared.global"), 3 * 2 * 2);  // two tiles ahead of the loop, one in it; two chunks, two tensors
  EXPECT_NE(ptx.find("cp.async.wait_group 2;"), std::string::npos);
  EXPECT_EQ(text.count("ld.shared.v4"), 2 * 2);
  EXPECT_EQ(text.count("bar.sync"), 2);  // of the sum alone
}

TEST(Movement, OneThreadAPartAsksTheCopyEngine) {
  const std::string schedule = "lanes=256,vector=8,staging=bulk,residency=shared";
  const KernelSpec spec = *parse_spec("width=16384,head_size=16384,residual=add:bf16");
  const PtxText text = text_of(*make_plan(spec, *parse_schedule(schedule), *parse_target("sm_90+ptx80")));
  EXPECT_EQ(text.count("cp.async.bulk.shared::cluster.global"), 2);
  EXPECT_EQ(text.count("mbarrier.arrive.expect_tx"), 1);
  EXPECT_EQ(text.count("mbarrier.try_wait.parity"), 1);
  EXPECT_EQ(text.count("fence.proxy.async"), 1);
  EXPECT_EQ(text.count("ld.global.v4"), 0);
}

TEST(Movement, CachesAreToldOfEveryRowAndWeight) {
  const KernelSpec spec = *parse_spec("width=4096,head_size=256");
  const PtxText text = text_of(*make_plan(spec, *parse_schedule("lanes=32,vector=8,cache=stream"), *parse_target("sm_80+ptx74")));
  EXPECT_EQ(text.count("createpolicy.fractional.L2::evict_first"), 1);
  EXPECT_EQ(text.count("createpolicy.fractional.L2::evict_last"), 1);
  EXPECT_EQ(text.count("ld.global.L1::no_allocate.L2::cache_hint.v4.b32"), 1);
  EXPECT_EQ(text.count("ld.global.nc.L2::cache_hint.v4.b32"), 1);
  EXPECT_EQ(text.count("st.global.L2::cache_hint.v4.b32"), 1);
  EXPECT_EQ(text.count("ld.global") + text.count("st.global"), 3);
}

// Nothing is read ahead of the wait, nor through the read-only cache; with weights ahead, they alone.
TEST(Movement, DependentKernelsWaitBeforeTheyRead) {
  const auto ptx_of = [](const char* schedule) {
    return compile(plan_of("width=4096,head_size=256,residual=add:bf16,gate=seednorm", 90, schedule));
  };
  for (const char* schedule : {"lanes=32,vector=8,launch=dependent", "lanes=32,vector=8,launch=dependent,weights=before",
                               "lanes=32,vector=8,launch=dependent,groups=16,grid=persistent,weights=before"}) {
    const std::string ptx = ptx_of(schedule);
    EXPECT_EQ(PtxText(ptx).count("ld.global.nc"), 0) << schedule;
    EXPECT_LT(ptx.find("griddepcontrol.wait"), ptx.find("ld.global")) << schedule;
    EXPECT_LT(ptx.find("griddepcontrol.wait"), ptx.find("griddepcontrol.launch_dependents")) << schedule;
  }
  for (const char* schedule : {"lanes=32,vector=8,launch=weights_ahead,weights=before",
                               "lanes=32,vector=8,launch=weights_ahead,groups=16,grid=persistent,weights=before"}) {
    const std::string ptx = ptx_of(schedule);
    const std::string ahead = ptx.substr(0, ptx.find("griddepcontrol.wait"));
    EXPECT_GE(PtxText(ahead).count("ld.global.nc"), 2) << schedule;
    EXPECT_EQ(PtxText(ahead).count("ld.global"), PtxText(ahead).count("ld.global.nc")) << schedule;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Structure, testing::Values(80, 90),
                         [](const auto& test) { return fmt::format("sm_{}", test.param); });

struct PackedCounts {
  const char *spec, *schedule;
  int add, mul, fma;  // operations on two elements
};

class PackedText : public testing::TestWithParam<const char*> {};

// What is elementwise, and nothing else: a lane's sum goes element by element.
TEST_P(PackedText, HasTheElementwiseArithmeticInPairs) {
  for (const PackedCounts& row :
       {PackedCounts{"width=4096,head_size=256", "lanes=32,vector=8", 0, 4 + 4, 0},
        PackedCounts{"width=4096,head_size=256", "lanes=32,vector=2", 0, 4 + 4, 0},
        PackedCounts{"width=4096,head_size=256", "lanes=32,vector=1", 0, 0, 0},
        PackedCounts{"width=4096,head_size=256,weight_offset=1", "lanes=32,vector=8", 4, 4 + 4, 0},
        PackedCounts{"width=4096,head_size=256,residual=add:bf16,gate=seednorm", "lanes=32,vector=8", 4, 4 + 4, 4},
        // An assembler would fuse a packed sum of a packed product.
        PackedCounts{"width=4096,head_size=256,residual=add:bf16,residual_scale=0.5", "lanes=32,vector=8", 0, 4 + 4 + 4, 0},
        PackedCounts{"width=4096,head_size=256,x=f32,y=f32,residual=add:f32,residual_scale=0.5", "lanes=32,vector=8", 0, 4 + 4 + 4,
                     0}}) {
    SCOPED_TRACE(row.schedule);
    const KernelSpec spec = *parse_spec(row.spec);
    const Target target = *parse_target(GetParam());
    const PtxText ptx = text_of(*make_plan(spec, *parse_schedule(row.schedule), target));
    const bool has_pairs = target.has_packed_f32();
    EXPECT_EQ(ptx.count("add.rn.f32x2"), has_pairs ? row.add : 0);
    EXPECT_EQ(ptx.count("mul.rn.f32x2"), has_pairs ? row.mul : 0);
    EXPECT_EQ(ptx.count("fma.rn.f32x2"), has_pairs ? row.fma : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PackedText, testing::Values("sm_90", "sm_100", "sm_100+ptx88", "sm_120"),
                         [](const auto& test) { return name_of(*parse_target(test.param)); });

TEST(Nvptx, RefusesTargetsThatLlvmCannotServe) {
  Plan plan = plan_of("width=64,head_size=64", 80);
  for (const auto& [sm, ptx] :
       {std::pair{75, 70}, std::pair{90, 70}, std::pair{80, 63}, std::pair{80, 999}, std::pair{12345, 70}}) {
    plan.target.sm = sm;
    plan.target.ptx = ptx;
    const auto artifact = make_llvm_backend()->compile(plan);
    ASSERT_FALSE(artifact.ok()) << sm << " " << ptx;
    EXPECT_EQ(artifact.error().kind, ErrorKind::user);
  }
}

TEST(Nvptx, SameBytesInAnotherProcessLocaleAndTimeZone) {
  const std::string plain = output_of(fmt::format("LC_ALL=C TZ=UTC '{}'", HEADNORM_PRINT_PTX));
  const std::string other = output_of(fmt::format("LC_ALL=de_DE.UTF-8 TZ=Pacific/Auckland '{}'", HEADNORM_PRINT_PTX));
  EXPECT_GT(plain.size(), 100000u);
  EXPECT_EQ(plain.find("command failed"), std::string::npos);
  EXPECT_TRUE(plain == other);
}

}  // namespace
}  // namespace headnorm::test
