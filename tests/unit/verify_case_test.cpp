// Verify cases: a right kernel passes, and what is wrong is found and placed.
#include "cli/verify_case.h"

#include <gtest/gtest.h>

#include <set>

#include "cli/reference.h"
#include "cli/verify_grid.h"
#include "generator/generator.h"

namespace headnorm::cli {
namespace {

class VerifyCaseTest : public ::testing::Test {
 protected:
  VerifyCaseTest() {
    spec_.width = 64;
    spec_.head_size = 16;
    spec_.x_dtype = spec_.residual_dtype = spec_.weight_dtype = spec_.y_dtype = Dtype::f32;
    spec_.residual = Residual::add;
    spec_ = make_spec(spec_).value();
    device_ = std::move(make_host_device(1)).value();
    backend_ = make_llvm_backend();
  }

  std::optional<Failure> verify(Reference reference, std::int64_t rows) {
    const Target target = device_->info().target;
    const Plan plan = make_plan(spec_, default_schedule(spec_, target), target).value();
    return SpecVerifier(*device_, *backend_, spec_, std::move(reference), 1).run(plan, rows).value();
  }

  KernelSpec spec_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<CodegenBackend> backend_;
};

TEST_F(VerifyCaseTest, ARightKernelPasses) {
  const std::optional<Failure> failure = verify(make_reference(spec_).value(), 5);
  EXPECT_FALSE(failure.has_value()) << failure->message;
}

TEST_F(VerifyCaseTest, AWrongElementIsPlaced) {
  int row = 0;
  const Reference right = make_reference(spec_).value();
  const Reference wrong = [&](const KernelSpec& spec, const RowValues& inputs) {
    ReferenceRow outputs = right(spec, inputs);
    if (row++ == 2) outputs.y[35] += 1;
    return outputs;
  };
  const std::optional<Failure> failure = verify(wrong, 5);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->what, "y");
  EXPECT_EQ(failure->rows, 5);
  EXPECT_EQ(failure->row, 2);
  EXPECT_EQ(failure->head, 2);
  EXPECT_EQ(failure->channel, 35);
  EXPECT_NEAR(failure->value, failure->expected - 1, 1e-3);
  EXPECT_LT(failure->bound, 1e-3);
}

TEST_F(VerifyCaseTest, TheResidualIsComparedToo) {
  const Reference right = make_reference(spec_).value();
  const std::optional<Failure> failure = verify(
      [&](const KernelSpec& spec, const RowValues& inputs) {
        ReferenceRow outputs = right(spec, inputs);
        outputs.residual_out[63] *= 2;
        return outputs;
      },
      1);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->what, "residual_out");
  EXPECT_EQ(failure->channel, 63);
}

TEST(VerifyGrid, CoversEveryOption) {
  for (Grid grid : {Grid::standard, Grid::full}) {
    std::set<std::string> seen;
    for (const KernelSpec& spec : grid_specs(grid)) {
      for (const char* name : {to_text(spec.weight), to_text(spec.rounding), to_text(spec.norm_input), to_text(spec.sigma)})
        seen.insert(name);
      seen.insert(std::string("residual ") + to_text(spec.residual));
      seen.insert(std::string("x ") + to_text(spec.x_dtype));
      if (spec.has_gate()) seen.insert(spec.seed_heads == 1 ? "seed over the width" : "seed per head");
    }
    for (const char* name : {"none",
                             "channel",
                             "shared",
                             "head",
                             "once",
                             "llama",
                             "rounded",
                             "unrounded",
                             "tanh",
                             "sigmoid",
                             "softsign",
                             "hardtanh",
                             "residual none",
                             "residual add",
                             "residual inplace",
                             "x f32",
                             "x f16",
                             "x bf16",
                             "seed over the width",
                             "seed per head"})
      EXPECT_TRUE(seen.contains(name)) << name;
  }
}

TEST(VerifyGrid, PlansOfASpecDiffer) {
  KernelSpec spec;
  spec.width = 1024;
  spec.head_size = 256;
  const std::vector<Plan> plans = grid_plans(spec, make_host_target(HostIsa::x86_64_v3), Grid::full).value();
  std::set<std::string> texts;
  for (const Plan& plan : plans) EXPECT_TRUE(texts.insert(to_text(plan.schedule)).second);
  EXPECT_GT(texts.size(), 8u);
}

}  // namespace
}  // namespace headnorm::cli
