// Generated CUDA C as nvcc takes it: no warnings on any path of the templates; the kernel gives the bits of LLVM's; the launcher
// and the self-test in the same file run, and see a wrong kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "generator/backend/cuda_c/template.h"
#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/random_launches.h"
#include "tests/support/temporary_directory.h"

namespace headnorm::test {
namespace {

struct Case {
  const char *spec, *schedule, *target;
};

// Together they have every template, dtype, residency, grid and form of weights.
constexpr Case kCases[] = {
    {"width=4096,head_size=256", "lanes=32,vector=8,block=128", "sm_90"},
    {"width=27,head_size=9,x=f32,y=f32,weight=shared:f32", "lanes=4,vector=2,block=32", "sm_80"},
    {"width=4096,head_size=4096,residual=add:f32,gate=seednorm,seed_heads=16,rounding=llama", "lanes=16,vector=8", "sm_80"},
    {"width=1152,head_size=288,residual=inplace:bf16,gate=seednorm,sigma=softsign",
     "lanes=8,vector=16,groups=4,rows=1,grid=persistent,weights=before,access=32", "sm_100+ptx88"},
    {"width=768,head_size=192,x=f16,y=f16,weight=head:f32,residual=add:f16,gate=seednorm,seed_heads=1,sigma=hardtanh",
     "lanes=8,vector=8,residency=shared,grid=persistent", "sm_80"},
    {"width=1000,head_size=1000,weight=none,residual=add:f32,norm_input=unrounded,mode=safe-range,gate=seednorm,sigma=sigmoid",
     "lanes=64,vector=4,residency=reload,unroll=1", "sm_90"},
    {"width=2432,head_size=304,x=f32,y=bf16,weight=channel:f16,weight_offset=1", "lanes=16,vector=4,unroll=2,weights=before",
     "sm_90"},
    {"width=8192,head_size=8192,residual=add:bf16,gate=seednorm,seed_heads=4,mode=safe-range",
     "lanes=32,vector=4,cluster=16,cache=stream,launch=dependent", "sm_90"},
    {"width=768,head_size=256,residual=add:f32,gate=seednorm",
     "lanes=32,vector=8,staging=async,stages=3,grid=persistent,weights=before,launch=weights_ahead", "sm_90"},
    {"width=8448,head_size=8448,residual=add:bf16",
     "lanes=64,vector=8,cluster=2,staging=bulk,residency=shared,grid=persistent,rows=2,cache=stream", "sm_90+ptx80"},
};
// Those whose self-test runs: each kind of launch, in place, with rows that are kept and rounded otherwise.
constexpr Case kLaunched[] = {kCases[0], kCases[3], kCases[4], kCases[7], kCases[9]};

void PrintTo(const Case& test, std::ostream* out) { *out << test.spec << ' ' << test.schedule << ' ' << test.target; }

// Its number, for names that are the same in every build.
std::string case_name(const ::testing::TestParamInfo<Case>& test) { return fmt::to_string(test.index); }

Result<Plan> plan_of(const Case& test) {
  return make_plan(*parse_spec(test.spec), *parse_schedule(test.schedule), *parse_target(test.target));
}

class Nvcc : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (std::string(HEADNORM_NVCC).empty()) GTEST_SKIP() << "nvcc is not installed";
    const Result<Plan> plan = plan_of(GetParam());
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    plan_ = *plan;
  }

  std::string path(const char* name) const { return (directory_.path() / name).string(); }
  std::string architecture() const { return "-arch=" + processor_name(plan_.target); }

  void write(const std::string& text) const { std::ofstream(path("kernel.cu")) << text; }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // Exit status; what the command says goes to `log`.
  int run(const std::string& command) const { return std::system(fmt::format("{} > '{}' 2>&1", command, path("log")).c_str()); }
  std::string log() const { return read(path("log")); }
  int nvcc(const std::string& arguments) const { return run(fmt::format("'{}' {} {}", HEADNORM_NVCC, architecture(), arguments)); }

  // The self-test in kernel.cu on an emulated GPU, its kernel from that file's PTX.
  int run_self_test() const {
    if (nvcc(fmt::format("-ptx '{}' -o '{}'", path("kernel.cu"), path("kernel.ptx"))) != 0) return -1;
    if (nvcc(fmt::format("-cudart none '{}' '{}' -ldl -o '{}'", path("kernel.cu"), HEADNORM_RUNTIME_ON_DRIVER, path("test"))) != 0)
      return -1;
    const std::string model(emulator::device_model(emulated_model(plan_.target)).slug);
    return run(fmt::format("HEADNORM_TEST_PTX='{}' HEADNORM_TEST_DRIVER='{}' HEADNORM_EMULATOR_DEVICES={} '{}'", path("kernel.ptx"),
                           HEADNORM_DRIVER, model, path("test")));
  }

  headnorm::test::TemporaryDirectory directory_;
  Plan plan_;
};
class NvccSelfTest : public Nvcc {
 protected:
  void SetUp() override {
    if (HEADNORM_HAS_SANITIZER) GTEST_SKIP() << "a driver with a sanitizer in it does not load into a program without";
    Nvcc::SetUp();
  }
};

TEST_P(Nvcc, TakesTheFileWithoutAWarning) {
  write(*render_cuda(plan_));
  EXPECT_EQ(nvcc(fmt::format("-Xcompiler -Wall,-Wextra -Werror all-warnings -c '{}' -o '{}'", path("kernel.cu"), path("kernel.o"))),
            0)
      << log();
  EXPECT_EQ(log(), "");
}

TEST_P(Nvcc, MakesAKernelWithTheBitsOfLlvms) {
  write(*render_cuda(plan_));
  ASSERT_EQ(nvcc(fmt::format("-ptx '{}' -o '{}'", path("kernel.cu"), path("kernel.ptx"))), 0) << log();
  Layout layout;
  if (plan_.spec.residual == Residual::inplace) layout.alias = Alias::inplace;
  const auto fill = [&](LaunchTensors& tensors) {
    Random random(5);
    fill_random(random, tensors);
  };
  LaunchTensors expected(plan_.spec, 3, layout), got(plan_.spec, 3, layout);
  fill(expected);
  fill(got);
  ASSERT_EQ(run_ptx(*make_llvm_backend(), plan_, expected, emulator::Order::forward), "");
  Artifact artifact;
  artifact.bytes = read(path("kernel.ptx"));
  const auto ran = run_emulated(artifact, plan_, got, {});
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_TRUE(same_outputs(expected, got));
}

TEST_P(NvccSelfTest, Passes) {
  write(*render_cuda(plan_));
  EXPECT_EQ(run_self_test(), 0) << log();
  EXPECT_NE(log().find("PASS"), std::string::npos) << log();
}

class NvccWrongKernel : public NvccSelfTest {};

TEST_P(NvccWrongKernel, IsSeenByItsSelfTest) {
  std::string text = *render_cuda(plan_);
  const std::string right = "rsqrtf(mean_sq)", wrong = "rsqrtf(__fmul_rn(mean_sq, 1.02f))";
  text.replace(text.find(right), right.size(), wrong);
  write(text);
  EXPECT_NE(run_self_test(), 0);
  EXPECT_NE(log().find("FAIL"), std::string::npos) << log();
}

INSTANTIATE_TEST_SUITE_P(Cases, Nvcc, ::testing::ValuesIn(kCases), case_name);
INSTANTIATE_TEST_SUITE_P(Cases, NvccSelfTest, ::testing::ValuesIn(kLaunched), case_name);
INSTANTIATE_TEST_SUITE_P(Cases, NvccWrongKernel, ::testing::Values(kCases[0]), case_name);

TEST(NvccCases, HaveEveryTemplate) {
  std::string all;
  for (const Case& test : kCases) {
    const Result<Plan> plan = plan_of(test);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    all += *render_cuda(*plan);
  }
  for (const cuda_c::Template& part : cuda_c::templates()) {
    const bool begins_with_a_slot = part.text.starts_with("{{");
    const std::string_view text = begins_with_a_slot ? part.text.substr(part.text.find('\n')) : part.text;
    EXPECT_NE(all.find(text.substr(0, text.find("{{"))), std::string::npos) << part.name;
  }
}

}  // namespace
}  // namespace headnorm::test
