// The host device's own promises: shares of rows, threads, float mode, fork.
#include "runtime/host/host_device.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/host/processor.h"
#include "runtime/host/thread_pool.h"
#include "tests/fixtures/fixtures.h"

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace headnorm::host {
namespace {

TEST(Shares, CoverAllRowsInOrder) {
  for (std::int64_t rows : {1, 2, 7, 64, 1000003}) {
    for (int shares = 1; shares <= 9; ++shares) {
      std::int64_t next = 0;
      for (int i = 0; i < shares; ++i) {
        const RowRange range = share_of_rows(rows, shares, i);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.end - range.begin, rows / shares);
        EXPECT_LE(range.end - range.begin, rows / shares + 1);
        next = range.end;
      }
      EXPECT_EQ(next, rows);
    }
  }
  const std::int64_t most = std::int64_t{1} << 62;
  EXPECT_EQ(share_of_rows(most, 3, 2).end, most);  // no overflow
}

TEST(Shares, AreWorthTheirThreads) {
  EXPECT_EQ(share_count(1000, kMinShareBytes - 1, 8), 1);
  EXPECT_EQ(share_count(1000, 3 * kMinShareBytes, 8), 3);
  EXPECT_EQ(share_count(1000, 300 * kMinShareBytes, 8), 8);
  EXPECT_EQ(share_count(2, 300 * kMinShareBytes, 8), 2);
}

TEST(Processor, NameIsTrimmed) {
  EXPECT_EQ(processor_name_from("processor\t: 0\nmodel name\t:  Some  CPU @ 2.00GHz \nflags\t: x\n"), "Some CPU @ 2.00GHz");
  EXPECT_EQ(processor_name_from("processor\t: 0\nmodel name\t:\n"), "unknown processor");
  EXPECT_EQ(processor_name_from("model name"), "unknown processor");
  EXPECT_EQ(processor_name_from(""), "unknown processor");
}

struct Counts {
  std::vector<std::atomic<int>> of;
  explicit Counts(std::size_t size) : of(size) {}
  static void count(void* context, int index) { ++static_cast<Counts*>(context)->of[static_cast<std::size_t>(index)]; }
};

TEST(ThreadPool, RunsEachIndexOnce) {
  ThreadPool pool(4);
  for (int count : {0, 1, 2, 4, 9}) {
    Counts counts(10);
    pool.run(count, Counts::count, &counts);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(counts.of[static_cast<std::size_t>(i)], i < count ? 1 : 0);
  }
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(3);
  Counts counts(3);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller)
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) pool.run(3, Counts::count, &counts);
    });
  for (std::thread& caller : callers) caller.join();
  for (const auto& count : counts.of) EXPECT_EQ(count, 300);
}

TEST(ThreadPool, AChildOfForkHasThreadsOfItsOwn) {
  ThreadPool pool(2);
  const auto meet = [](void* context, int) {  // returns once both indices are being worked on
    auto& arrived = *static_cast<std::atomic<int>*>(context);
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  };
  std::atomic<int> in_parent{0};
  pool.run(2, meet, &in_parent);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);  // a child that waits for ever is ended by the signal
    std::atomic<int> in_child{0};
    pool.run(2, meet, &in_child);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
}

constexpr std::int64_t kRows = 8000;  // 6 MB of traffic: shares for up to five threads

class HostLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto spec = fixtures::norm_spec();
    auto plan = fixtures::norm_plan();
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    plan_ = *plan;
    x_.resize(static_cast<std::size_t>(kRows * spec.width));
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& value : x_) value = normal(random);
  }

  std::vector<float> run(Device& device) {
    std::vector<float> y(x_.size(), -99.0f);
    const auto kernel = device.load(fixtures::norm_artifact(HEADNORM_FIXTURE_NORM), plan_);
    EXPECT_TRUE(kernel.ok());
    if (!kernel.ok()) return y;
    LaunchArguments arguments;
    arguments.rows = kRows;
    arguments.address(Operand::x) = x_.data();
    arguments.address(Operand::y) = y.data();
    arguments.stride(Operand::x) = arguments.stride(Operand::y) = plan_.spec.width;
    const auto launched = device.launch(**kernel, arguments);
    EXPECT_TRUE(launched.ok()) << launched.error().message;
    return y;
  }

  static std::unique_ptr<Device> make(int threads) {
    auto device = make_host_device(threads);
    EXPECT_TRUE(device.ok());
    return std::move(*device);
  }

  Plan plan_;
  std::vector<float> x_;
};

TEST_F(HostLaunch, ResultDoesNotDependOnThreads) {
  const std::vector<float> expected = run(*make(1));
  for (int threads : {0, 2, 3, 5}) EXPECT_EQ(run(*make(threads)), expected) << threads;
}

TEST_F(HostLaunch, ResultDoesNotDependOnTheCallersFloatMode) {
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] *= 0x1p-130f;  // denormals: their squares are 0, and y is NaN or infinite
  for (std::size_t i = 0; i < x_.size(); i += 32) x_[i] = 0x1.3p-3f;
  const auto device = make(2);
  const std::vector<float> expected = run(*device);
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040 | 0x6000);  // flush denormals, treat them as zero, round towards zero
  const unsigned set = _mm_getcsr();
  const std::vector<float> other = run(*device);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(mode);
  EXPECT_EQ(other, expected);
  EXPECT_EQ(after & 0xe040u, set & 0xe040u);
}

TEST_F(HostLaunch, AChildOfForkLaunches) {
  const auto device = make(3);
  const std::vector<float> expected = run(*device);  // the threads are there
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);  // a child that waits for ever is ended by the signal
    ::_exit(run(*device) == expected ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(run(*device), expected);
}

TEST_F(HostLaunch, AMisalignedOutputOfStreamingStoresIsRefused) {
  const auto device = make(1);
  const auto plan = fixtures::norm_plan(StoreKind::nt);
  ASSERT_TRUE(plan.ok());
  ASSERT_GT(plan->host().y_alignment, 1);
  const auto kernel = device->load(fixtures::norm_artifact(HEADNORM_FIXTURE_NORM), *plan);
  ASSERT_TRUE(kernel.ok());
  alignas(64) float y[2 * 96 + 1];
  LaunchArguments arguments;
  arguments.address(Operand::x) = x_.data();
  arguments.address(Operand::y) = y;
  arguments.stride(Operand::x) = arguments.stride(Operand::y) = 96;
  arguments.rows = 2;
  EXPECT_TRUE(device->launch(**kernel, arguments).ok());
  arguments.address(Operand::y) = y + 1;
  EXPECT_FALSE(device->launch(**kernel, arguments).ok());
  arguments.address(Operand::y) = y;
  arguments.stride(Operand::y) = 97;
  const auto refused = device->launch(**kernel, arguments);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("multiples of the 16 bytes"), std::string::npos) << refused.error().message;
}

TEST_F(HostLaunch, RefusesATargetThatThisProcessorLacks) {
  const auto device = make(1);
  int lacking = 0;
  for (HostIsa isa : kHostIsas) {
    const auto plan = make_plan(plan_.spec, plan_.schedule, make_host_target(isa));
    ASSERT_TRUE(plan.ok());
    const auto kernel = device->load(fixtures::norm_artifact(HEADNORM_FIXTURE_NORM), *plan);
    EXPECT_EQ(kernel.ok(), host_supports(isa));
    if (kernel.ok()) continue;
    ++lacking;
    EXPECT_NE(kernel.error().message.find(to_text(plan->target)), std::string::npos);
    EXPECT_NE(kernel.error().message.find(to_text(device->info().target)), std::string::npos);
  }
  EXPECT_LT(lacking, static_cast<int>(std::size(kHostIsas)));  // every processor runs the baseline
}

TEST(HostDevice, RefusesAnImpossibleNumberOfThreads) {
  EXPECT_FALSE(make_host_device(-1).ok());
  EXPECT_FALSE(make_host_device(1 << 20).ok());
}

}  // namespace
}  // namespace headnorm::host
