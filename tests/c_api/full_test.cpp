// libheadnorm_full: the same functions, with a compiler behind them; kernels of the host and of an emulated GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/c_api/headnorm_c.h"

namespace headnorm {
namespace {

constexpr std::int64_t kRows = 3, kWidth = 64;

#define ASSERT_SUCCEEDS(call) ASSERT_EQ(call, HEADNORM_OK) << headnorm_last_error() << "\n" << headnorm_last_remedy()

class Full : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_SUCCEEDS(headnorm_spec_parse("width=64,head_size=32,x=f32,y=f32,weight=none,eps=0", &spec_)); }
  void TearDown() override { headnorm_spec_release(spec_); }

  // Heads of powers of two, which come out as 1 and -1.
  void expect_right(headnorm_device* device, void* stream) {
    std::vector<float> x(kRows * kWidth), y(kRows * kWidth);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 5 == 0 ? -2.0f : 2.0f;
    headnorm_runtime* runtime = nullptr;
    headnorm_buffer *in = nullptr, *out = nullptr;
    ASSERT_SUCCEEDS(headnorm_runtime_create(device, nullptr, nullptr, &runtime));
    ASSERT_SUCCEEDS(headnorm_buffer_create(device, x.size() * sizeof(float), &in));
    ASSERT_SUCCEEDS(headnorm_buffer_create(device, x.size() * sizeof(float), &out));
    ASSERT_SUCCEEDS(headnorm_device_copy_in(device, headnorm_buffer_address(in), x.data(), x.size() * sizeof(float)));
    headnorm_arguments arguments = headnorm_arguments_init();
    arguments.rows = kRows;
    arguments.stream = stream;
    arguments.x = headnorm_buffer_address(in);
    arguments.y = headnorm_buffer_address(out);
    headnorm_choice choice = headnorm_choice_init();
    ASSERT_SUCCEEDS(headnorm_runtime_launch(runtime, spec_, &arguments, &choice));
    EXPECT_STREQ(choice.served, "default");
    ASSERT_SUCCEEDS(headnorm_device_synchronize(device));
    ASSERT_SUCCEEDS(headnorm_device_copy_out(device, y.data(), headnorm_buffer_address(out), y.size() * sizeof(float)));
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], i % 5 == 0 ? -1.0f : 1.0f) << i;
    headnorm_runtime_release(runtime);
    headnorm_buffer_release(in);
    headnorm_buffer_release(out);
  }

  headnorm_spec* spec_ = nullptr;
};

TEST_F(Full, CompilesForTheHost) {
  EXPECT_EQ(headnorm_has_compiler(), 1);
  headnorm_device* device = nullptr;
  ASSERT_SUCCEEDS(headnorm_device_open("host", nullptr, &device));
  expect_right(device, nullptr);
  headnorm_device_release(device);
}

TEST_F(Full, CompilesForAGpu) {
  ::setenv("HEADNORM_EMULATOR_DEVICES", "h200", 1);
  headnorm_device_options options = headnorm_device_options_init();
  options.driver = HEADNORM_EMULATOR_DRIVER;
  headnorm_device* device = nullptr;
  ASSERT_SUCCEEDS(headnorm_device_open("cuda:0", &options, &device));
  headnorm_device_info info = headnorm_device_info_init();
  ASSERT_SUCCEEDS(headnorm_device_get_info(device, &info));
  EXPECT_TRUE(std::string(info.target).starts_with("sm_90")) << info.target;
  expect_right(device, nullptr);
  headnorm_device_release(device);
}

}  // namespace
}  // namespace headnorm
