// The runtime: which kernel serves, what a second launch costs, and what happens when the best kernel cannot be had.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "runtime/headnorm.h"
#include "tests/fixtures/fake_backend.h"
#include "tests/fixtures/memory_database.h"

namespace headnorm {
namespace {

using fixtures::FakeBackend;
using fixtures::MemoryDatabase;

constexpr std::int64_t kRows = 5, kWidth = 96;

// Every head of x is one power of two: y is the sign.
struct Tensors {
  alignas(64) std::array<float, kRows * kWidth> x{};
  alignas(64) std::array<float, kRows * kWidth + 1> y{};

  Tensors() {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? -4.0f : 4.0f;
  }
  LaunchArguments arguments(std::ptrdiff_t shift = 0) {
    LaunchArguments a;
    a.rows = kRows;
    a.address(Operand::x) = x.data();
    a.address(Operand::y) = y.data() + shift;
    a.stride(Operand::x) = a.stride(Operand::y) = kWidth;
    return a;
  }
  void expect_right(std::ptrdiff_t shift = 0) {
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i + static_cast<std::size_t>(shift)], i % 3 == 0 ? -1.0f : 1.0f) << i;
  }
};

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = make_host_device(2);
    ASSERT_TRUE(device.ok());
    device_ = std::move(*device);
  }

  // A record as the tuner leaves it, with its kernel.
  void publish_record(FakeBackend& backend) {
    HostSchedule schedule;
    schedule.block_bytes = 384;
    const auto plan = make_plan(spec_, schedule, device_->info().target);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const auto artifact = backend.compile(*plan);
    ASSERT_TRUE(artifact.ok());
    Record record;
    record.id = "0123456789abcdef0123456789abcdef";
    record.spec = plan->spec;
    record.rows = kRows;
    record.schedule = plan->schedule;
    record.kernel = *database_.store_kernel(*artifact, "");
    backend.compilations = 0;
    database_.record = record;
  }

  KernelSpec spec_ = fixtures::norm_spec();
  std::unique_ptr<Device> device_;
  MemoryDatabase database_;
  FakeBackend backend_{HEADNORM_FIXTURE_NORM};
  Tensors tensors_;
};

TEST_F(RuntimeTest, WithoutADatabaseTheDefaultServes) {
  Runtime runtime(*device_, nullptr, &backend_);
  const auto report = runtime.run(spec_, tensors_.arguments());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->served, Served::fallback);
  EXPECT_EQ(report->schedule, default_schedule(spec_, device_->info().target));
  EXPECT_EQ(report->record, "");
  tensors_.expect_right();
}

TEST_F(RuntimeTest, ARecordServes) {
  publish_record(backend_);
  Runtime runtime(*device_, &database_, &backend_);
  const auto prepared = runtime.prepare(spec_, kRows), report = runtime.run(spec_, tensors_.arguments());
  ASSERT_TRUE(prepared.ok() && report.ok());
  EXPECT_EQ(report->served, Served::exact);
  EXPECT_EQ(report->schedule, database_.record->schedule);
  EXPECT_EQ(report->record, database_.record->id);
  EXPECT_EQ(prepared->schedule, report->schedule);
  EXPECT_EQ(backend_.compilations, 0) << "its kernel is stored";
  tensors_.expect_right();
}

TEST_F(RuntimeTest, TheSecondLaunchTouchesNeitherFilesNorCompiler) {
  publish_record(backend_);
  Runtime runtime(*device_, &database_, &backend_, JitMode::forbidden);
  ASSERT_TRUE(runtime.prepare(spec_, kRows).ok());
  const int look_ups = database_.look_ups, reads = database_.kernel_reads;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(runtime.run(spec_, tensors_.arguments()).ok());
  EXPECT_EQ(database_.look_ups, look_ups);
  EXPECT_EQ(database_.kernel_reads, reads);
  EXPECT_EQ(backend_.compilations, 0);
}

TEST_F(RuntimeTest, AnUnknownShapeIsAnErrorAtOnceWhereCompilingIsForbidden) {
  publish_record(backend_);
  Runtime runtime(*device_, &database_, &backend_, JitMode::forbidden);
  ASSERT_TRUE(runtime.prepare(spec_, kRows).ok());
  KernelSpec other = spec_;
  other.eps = 1e-5;
  database_.served = Served::other_shape;
  const auto report = runtime.prepare(other, kRows);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("eps=1e-05"), std::string::npos) << report.error().message;
  EXPECT_NE(report.error().remedy.find("headnorm tune"), std::string::npos);
}

TEST_F(RuntimeTest, AProcessWithoutACompilerTakesTheRecordsKernel) {
  FakeBackend older(HEADNORM_FIXTURE_NORM, "fake-0");
  publish_record(older);
  Runtime runtime(*device_, &database_, nullptr);
  const auto report = runtime.run(spec_, tensors_.arguments());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->served, Served::exact);
  tensors_.expect_right();
}

TEST_F(RuntimeTest, AMisalignedTensorIsServedByTheUnalignedTwin) {
  Runtime runtime(*device_, &database_, &backend_);
  const auto aligned = runtime.run(spec_, tensors_.arguments());
  ASSERT_TRUE(aligned.ok());
  ASSERT_EQ(std::get<HostSchedule>(aligned->schedule).store, StoreKind::nt) << "else this tests nothing";
  const auto report = runtime.run(spec_, tensors_.arguments(1));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(std::get<HostSchedule>(report->schedule).store, StoreKind::plain);
  tensors_.expect_right(1);
  EXPECT_EQ(backend_.compilations, 2);
  ASSERT_TRUE(runtime.run(spec_, tensors_.arguments(1)).ok());
  EXPECT_EQ(backend_.compilations, 2);
}

TEST_F(RuntimeTest, WithoutACompilerAMisalignedTensorIsAnErrorThatSaysSo) {
  Runtime compiling(*device_, &database_, &backend_);
  ASSERT_TRUE(compiling.prepare(spec_, kRows).ok());  // the default, with streaming stores, is stored
  Runtime runtime(*device_, &database_, &backend_, JitMode::forbidden);
  ASSERT_TRUE(runtime.run(spec_, tensors_.arguments()).ok());
  const auto report = runtime.run(spec_, tensors_.arguments(1));
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("lack the alignment"), std::string::npos) << report.error().message;
  EXPECT_EQ(report.error().remedy.find("align addresses"), 0u) << report.error().remedy;
}

TEST_F(RuntimeTest, AWinnerThatNoLongerCompilesIsPassedOverForTheDefault) {
  publish_record(backend_);
  database_.kernels.clear();
  backend_.before = [&](const Plan& plan) -> Result<void> {
    if (plan.schedule == database_.record->schedule) return internal_error("no register left");
    return {};
  };
  Runtime runtime(*device_, &database_, &backend_);
  const auto report = runtime.run(spec_, tensors_.arguments());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->served, Served::fallback);
  EXPECT_EQ(report->record, "");
  tensors_.expect_right();
  ASSERT_EQ(database_.warnings.size(), 1u);
  EXPECT_NE(database_.warnings[0].find("no register left"), std::string::npos) << database_.warnings[0];
}

TEST_F(RuntimeTest, AWinnerThatNoLongerLoadsIsCompiledAnew) {
  publish_record(backend_);
  for (auto& [key, artifact] : database_.kernels) artifact.bytes.resize(artifact.bytes.size() / 2);
  Runtime runtime(*device_, &database_, &backend_);
  const auto report = runtime.run(spec_, tensors_.arguments());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->served, Served::exact);
  EXPECT_EQ(backend_.compilations, 1);
  tensors_.expect_right();
}

TEST_F(RuntimeTest, ZeroRowsWithNullAddressesDoNothingAndTheNextCallIsRight) {
  Runtime runtime(*device_, &database_, &backend_);
  EXPECT_TRUE(runtime.run(spec_, {}).ok());
  EXPECT_EQ(backend_.compilations, 0);
  ASSERT_TRUE(runtime.run(spec_, tensors_.arguments()).ok());
  tensors_.expect_right();
  EXPECT_TRUE(runtime.run(spec_, {}).ok());
}

TEST_F(RuntimeTest, RefusesWhatBreaksARule) {
  Runtime runtime(*device_, &database_, &backend_);
  EXPECT_FALSE(runtime.prepare(spec_, 0).ok());
  EXPECT_FALSE(runtime.prepare(KernelSpec{}, 1).ok());
  EXPECT_FALSE(runtime.run(KernelSpec{}, tensors_.arguments()).ok());
  EXPECT_FALSE(runtime.run(KernelSpec{}, {}).ok());
  LaunchArguments arguments = tensors_.arguments();
  arguments.rows = -1;
  EXPECT_FALSE(runtime.run(spec_, arguments).ok());
  arguments = tensors_.arguments();
  arguments.address(Operand::x) = nullptr;
  EXPECT_FALSE(runtime.run(spec_, arguments).ok());
}

TEST_F(RuntimeTest, ManyThreadsRunAtOnce) {
  publish_record(backend_);
  Runtime runtime(*device_, &database_, &backend_);
  std::vector<Tensors> tensors(8);
  std::vector<std::thread> threads;
  for (Tensors& mine : tensors)
    threads.emplace_back([&] {
      for (std::ptrdiff_t shift : {0, 1, 0}) {
        EXPECT_TRUE(runtime.run(spec_, mine.arguments(shift)).ok());
        mine.expect_right(shift);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(backend_.compilations, 1) << "of the unaligned twin";
}

}  // namespace
}  // namespace headnorm
