// A spec's kernels of the real compiler through the runtime, with a database of their own: what tests of serving have in common.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "generator/generator.h"
#include "runtime/headnorm.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {

inline constexpr const char* kGeneratedSpec = "width=256,head_size=64,x=f32,y=f32,weight=none,eps=1e-06";

class GeneratedKernel : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 3000, kWidth = 256;  // 6 MB of traffic: shares for five threads

  void SetUp() override {
    auto spec = parse_spec(kGeneratedSpec);
    ASSERT_TRUE(spec.ok());
    spec_ = *spec;
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    x_.resize(kRows * kWidth);
    for (float& value : x_) value = normal(random);
  }

  static std::unique_ptr<Device> device(int threads) {
    auto made = make_host_device(threads);
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }
  std::unique_ptr<Database> database() {
    auto opened = Database::open(directory_.path() / "db");
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(*opened);
  }

  // y of all rows, from a tensor that begins `shift` elements into an aligned one.
  std::vector<float> run(Runtime& runtime, Device& on, std::size_t shift = 0) {
    const std::size_t bytes = x_.size() * sizeof(float);
    auto x = on.allocate(bytes), memory = on.allocate(bytes + shift * sizeof(float));
    EXPECT_TRUE(x.ok() && memory.ok());
    EXPECT_TRUE(on.copy_in(x->address(), x_.data(), bytes).ok());
    LaunchArguments arguments;
    arguments.rows = kRows;
    arguments.address(Operand::x) = x->address();
    arguments.address(Operand::y) = static_cast<float*>(memory->address()) + shift;
    arguments.stride(Operand::x) = arguments.stride(Operand::y) = kWidth;
    const auto report = runtime.run(spec_, arguments);
    EXPECT_TRUE(report.ok()) << report.error().message;
    if (report.ok()) last_report_ = *report;
    std::vector<float> y(x_.size());
    const auto copied = on.copy_out(y.data(), arguments.address(Operand::y), bytes);
    EXPECT_TRUE(copied.ok()) << copied.error().message;
    return y;
  }

  // Not the default one.
  static Schedule tuned_schedule(const Target& target) {
    if (target.kind == TargetKind::gpu) return GpuSchedule{.lanes = 16, .vector_elements = 4, .block_threads = 256};
    HostSchedule schedule;
    schedule.block_bytes = 2048;
    return schedule;
  }

  // A record of a device with the compiled kernel beside it, as a search leaves it.
  Record publish(Database& to, const DeviceInfo& info, std::int64_t rows) {
    const auto plan = make_plan(spec_, tuned_schedule(info.target), info.target);
    return publish(to, info, rows, *backend_->compile(*plan));
  }
  Record publish(Database& to, const DeviceInfo& info, std::int64_t rows, const Artifact& artifact) {
    const auto plan = make_plan(spec_, tuned_schedule(info.target), info.target);
    const auto kernel = to.store_kernel(artifact);
    EXPECT_TRUE(kernel.ok());
    Record record;
    record.id = record_id(spec_, rows, info, CachePolicy::cold);
    record.spec = plan->spec;
    record.rows = rows;
    record.device = info;
    record.schedule = plan->schedule;
    record.time = {10, 9, 11, 5};
    record.bytes = minimum_traffic(spec_).total_bytes(rows);
    record.search = "exhaustive";
    record.created = "2026-01-01T00:00:00Z";
    record.tool = "headnorm test";
    record.candidates = {1, 1, 1, {}};
    record.kernel = *kernel;
    const auto published = to.publish(record);
    EXPECT_TRUE(published.ok()) << published.error().message;
    return record;
  }

  test::TemporaryDirectory directory_;
  KernelSpec spec_;
  std::vector<float> x_;
  std::unique_ptr<CodegenBackend> backend_ = make_llvm_backend();
  LaunchReport last_report_;
};

}  // namespace headnorm
