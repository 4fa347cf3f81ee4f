// PTX of a few small kernels, compared byte by byte with the files beside this one.
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

class GoldenPtx : public testing::TestWithParam<Golden> {};

TEST_P(GoldenPtx, IsAsCommitted) {
  const Golden& golden = GetParam();
  const auto plan = make_plan(*parse_spec(golden.spec), *parse_schedule(golden.schedule), *parse_target(golden.target));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto artifact = make_llvm_backend()->compile(*plan);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::filesystem::path path = std::filesystem::path(HEADNORM_GOLDEN_DIR) / golden.file;
  if (std::getenv("HEADNORM_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << artifact->bytes;
  std::ostringstream committed;
  committed << std::ifstream(path).rdbuf();
  EXPECT_EQ(artifact->bytes, committed.str()) << "HEADNORM_UPDATE_GOLDEN=1 writes " << golden.file << " anew";
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, GoldenPtx,
    testing::Values(
        Golden{"head_per_warp.ptx", "width=4096,head_size=256", "lanes=32,vector=8,block=128", "sm_90"},
        Golden{"odd_head.ptx", "width=27,head_size=9,x=f32,y=f32,weight=shared:f32", "lanes=4,vector=2,block=32", "sm_80"},
        Golden{"seednorm_width.ptx", "width=256,head_size=64,weight=channel:bf16,residual=add:bf16,gate=seednorm,seed_heads=1",
               "lanes=16,vector=4,block=64", "sm_80"},
        Golden{"persistent_32_bytes.ptx", "width=1152,head_size=288,weight=channel:bf16,residual=add:bf16",
               "lanes=8,vector=16,groups=4,rows=1,grid=persistent,weights=before,access=32", "sm_100+ptx88"}),
    [](const auto& test) {
      std::string name = test.param.file;
      return name.substr(0, name.find('.'));
    });

}  // namespace
}  // namespace headnorm
