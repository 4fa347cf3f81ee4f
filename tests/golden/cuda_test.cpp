// CUDA C of two small kernels, compared byte by byte with the files beside this one.
//
// HEADNORM_UPDATE_GOLDEN=1 writes the files anew: look at the difference before it is committed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "generator/generator.h"

namespace headnorm {
namespace {

struct Golden {
  const char* file;
  const char* spec;
  const char* schedule;
  const char* target;
};

class GoldenCuda : public testing::TestWithParam<Golden> {};

TEST_P(GoldenCuda, IsAsCommitted) {
  const Golden& golden = GetParam();
  const auto plan = make_plan(*parse_spec(golden.spec), *parse_schedule(golden.schedule), *parse_target(golden.target));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto text = render_cuda(*plan);
  ASSERT_TRUE(text.ok()) << text.error().message;
  const std::filesystem::path path = std::filesystem::path(HEADNORM_GOLDEN_DIR) / golden.file;
  if (std::getenv("HEADNORM_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << *text;
  std::ostringstream committed;
  committed << std::ifstream(path).rdbuf();
  EXPECT_EQ(*text, committed.str()) << "HEADNORM_UPDATE_GOLDEN=1 writes " << golden.file << " anew";
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, GoldenCuda,
    testing::Values(Golden{"head_per_warp.cu", "width=4096,head_size=256", "lanes=32,vector=8,block=128", "sm_90"},
                    Golden{"seednorm_width.cu", "width=288,head_size=72,residual=add:bf16,gate=seednorm,seed_heads=1",
                           "lanes=16,vector=4,block=64", "sm_80"}),
    [](const auto& test) {
      std::string name = test.param.file;
      return name.substr(0, name.find('.'));
    });

}  // namespace
}  // namespace headnorm
