// CUDA C: templates with strict slots, the text of a plan, and NVRTC where it is and is not.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "core/artifact.h"
#include "generator/backend/cuda_c/template.h"
#include "generator/generator.h"

namespace headnorm {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

Plan plan_of(const std::string& spec_text, const std::string& schedule, const std::string& target_text) {
  const KernelSpec spec = *parse_spec(spec_text);
  const Target target = *parse_target(target_text);
  return *make_plan(spec, schedule.empty() ? default_schedule(spec, target) : *parse_schedule(schedule), target);
}

TEST(Template, ReplacesEachSlotByItsValue) {
  const auto filled = cuda_c::fill("t", "a {{x}} b {{y}} {{x}}", {{"x", "{{y}}"}, {"y", "2"}});
  ASSERT_TRUE(filled.ok());
  EXPECT_EQ(*filled, "a {{y}} b 2 {{y}}");  // a value is not searched for slots
}

TEST(Template, RefusesASlotThatNothingFills) {
  const auto filled = cuda_c::fill("frame", "{{x}} {{other}}", {{"x", "1"}});
  ASSERT_FALSE(filled.ok());
  EXPECT_EQ(filled.error().kind, ErrorKind::internal);
  EXPECT_EQ(filled.error().message, "template frame: nothing fills its slot 'other'");
}

TEST(Template, RefusesAValueThatNoSlotTakes) {
  const auto filled = cuda_c::fill("frame", "{{x}}", {{"x", "1"}, {"other", "2"}});
  ASSERT_FALSE(filled.ok());
  EXPECT_EQ(filled.error().message, "template frame has no slot 'other'");
}

TEST(Template, RefusesASlotThatDoesNotEnd) {
  EXPECT_EQ(cuda_c::fill("frame", "a {{x", {{"x", "1"}}).error().message, "template frame: a slot does not end");
}

TEST(Template, RefusesAnUnknownTemplate) { EXPECT_FALSE(cuda_c::fill_template("no_such_template").ok()); }

TEST(Template, EverySlotIsInTheReadme) {
  std::ostringstream readme;
  readme << std::ifstream(std::string(HEADNORM_TEMPLATES_DIR) + "/README.md").rdbuf();
  ASSERT_NE(readme.str(), "");
  ASSERT_FALSE(cuda_c::templates().empty());
  for (const cuda_c::Template& part : cuda_c::templates()) {
    EXPECT_TRUE(contains(readme.str(), "`" + std::string(part.name) + ".cu`")) << "`" + std::string(part.name) + ".cu`";
    for (std::size_t at = part.text.find("{{"); at != std::string_view::npos; at = part.text.find("{{", at + 2))
      EXPECT_TRUE(contains(readme.str(), "`" + std::string(part.text.substr(at + 2, part.text.find("}}", at) - at - 2)) + "`"))
          << "`" + std::string(part.text.substr(at + 2, part.text.find("}}", at) - at - 2)) + "`";
  }
}

TEST(CudaSource, IsTheSameEveryTimeAndLeavesNoSlot) {
  const Plan plan = plan_of("width=768,head_size=256,residual=add:bf16,gate=seednorm", "", "sm_90");
  const auto text = render_cuda(plan);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, *render_cuda(plan));
  EXPECT_EQ(text->find("{{"), std::string::npos);
}

TEST(CudaSource, SaysTheFormulaInItsOwnWords) {
  const auto text = render_cuda(plan_of("width=768,head_size=256,residual=add:f32,gate=seednorm,weight_offset=1", "", "sm_90"));
  ASSERT_TRUE(text.ok()) << text.error().message;
  for (const char* line :
       {"//   u              f32(x + residual), stored as residual_out",
        "//   y              u * inv_rms * (1 + gamma + s * alpha)", "u[i] = __fadd_rn(x[i], residual[i]);  // u = x + residual",
        "sum_sq = __fmaf_rn(u[i], u[i], sum_sq);  // sum_sq += u * u",
        "const float inv_rms = rsqrtf(mean_sq);  // inv_rms = 1 / sqrt(mean_sq)", "y[i] = __fmul_rn(n, gain);  // y = n * gain",
        "sum_sq = warp_sum<"})
    EXPECT_TRUE(contains(*text, line)) << line;
}

// What a compiler could contract or approximate is not left to it.
TEST(CudaSource, HasNoArithmeticThatACompilerMayChange) {
  const auto text = render_cuda(plan_of("width=768,head_size=256,residual=add:bf16,gate=seednorm,sigma=softsign", "", "sm_90"));
  ASSERT_TRUE(text.ok()) << text.error().message;
  const std::size_t begin = text->find("// Sweep 1"), end = text->find("#ifndef __CUDACC_RTC__", begin);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  std::istringstream body(text->substr(begin, end - begin));
  int computing = 0;
  for (std::string line; std::getline(body, line);) {
    const std::string code = line.substr(0, line.find("//"));
    if (code.find("float") == std::string::npos && code.find("[i]") == std::string::npos) continue;
    ++computing;
    EXPECT_EQ(code.find(" * "), std::string::npos) << line;
    EXPECT_EQ(code.find(" / "), std::string::npos) << line;
  }
  EXPECT_GT(computing, 10);
}

TEST(CudaSource, AsksForClustersThatNotEveryDeviceTakes) {
  const auto launcher_of = [](const char* cluster) {
    const std::string schedule = std::string("lanes=64,vector=8,") + cluster;
    return *render_cuda(plan_of("width=32768,head_size=32768", schedule.c_str(), "sm_90"));
  };
  const char* const attribute = "cudaFuncAttributeNonPortableClusterSizeAllowed";
  EXPECT_TRUE(contains(launcher_of("cluster=16"), attribute));
  EXPECT_FALSE(contains(launcher_of("cluster=8"), attribute));
}

TEST(CudaSource, IsForGpus) {
  const auto text = render_cuda(plan_of("width=768,head_size=256", "", "x86-64"));
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().kind, ErrorKind::user);
}

TEST(Nvrtc, ThatIsNotThereIsAnErrorOfTheEnvironment) {
  const auto backend = make_nvrtc_backend("/nonexistent/libnvrtc.so");
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().kind, ErrorKind::environment);
  EXPECT_TRUE(contains(backend.error().message, "/nonexistent/libnvrtc.so")) << "/nonexistent/libnvrtc.so";
  EXPECT_TRUE(contains(backend.error().remedy, "HEADNORM_NVRTC")) << "HEADNORM_NVRTC";
}

TEST(Nvrtc, OfAnotherLibraryIsAnErrorOfTheEnvironment) {
  const auto backend = make_nvrtc_backend("libc.so.6");
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().message, "libc.so.6 has no function nvrtcVersion");
}

TEST(Nvrtc, SaysInItsIdentityWhatDecidesTheBytes) {
  const auto backend = make_nvrtc_backend();
  if (!backend.ok()) GTEST_SKIP() << backend.error().message;
  const std::string identity = (*backend)->identity();
  EXPECT_TRUE(identity.starts_with("nvrtc-")) << identity;
  EXPECT_TRUE(contains(identity, "--fmad=false")) << "--fmad=false";
  EXPECT_TRUE(contains(identity, "templates-" + cuda_c::templates_digest())) << "templates-" + cuda_c::templates_digest();
  const Plan plan = plan_of("width=768,head_size=256", "", "sm_90");
  const auto artifact = (*backend)->compile(plan);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(artifact->kind, ArtifactKind::ptx);
  EXPECT_EQ(artifact->key, artifact_key(plan, identity));
  EXPECT_NE(artifact->key, artifact_key(plan, make_llvm_backend()->identity()));
  EXPECT_TRUE(contains(artifact->bytes, ".entry " + artifact->entry)) << ".entry " + artifact->entry;
}

}  // namespace
}  // namespace headnorm
