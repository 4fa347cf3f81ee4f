// The host device's own promises: shares of rows, threads, float mode, fork.
#include "runtime/host/host_device.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/host/float_mode.h"
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
  std::function<void(int)> counter() {
    return [this](int index) { ++of[static_cast<std::size_t>(index)]; };
  }
};

TEST(ThreadPool, RunsEachIndexOnce) {
  ThreadPool pool(4);
  for (int count : {0, 1, 2, 4, 9}) {
    Counts counts(10);
    pool.run(count, counts.counter());
    for (int i = 0; i < 10; ++i) EXPECT_EQ(counts.of[static_cast<std::size_t>(i)], i < count ? 1 : 0);
  }
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(3);
  Counts counts(3);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller)
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) pool.run(3, counts.counter());
    });
  for (std::thread& caller : callers) caller.join();
  for (const auto& count : counts.of) EXPECT_EQ(count, 300);
}

TEST(ThreadPool, AChildOfForkHasThreadsOfItsOwn) {
  ThreadPool pool(2);
  const auto meet = [&pool] {
    std::atomic<int> arrived{0};
    pool.run(2, [&](int) {  // returns once both indices are being worked on
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
  };
  meet();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);  // a child that waits for ever is ended by the signal
    meet();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
}

#if defined(__aarch64__)
constexpr std::uint64_t kFlushAndRoundTowardsZero = 0x1c00000;
#else
constexpr std::uint64_t kFlushAndRoundTowardsZero = 0x8040 | 0x6000;  // denormal inputs, too, are zero
#endif

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
  const std::uint64_t mode = float_mode();
  set_float_mode(mode | kFlushAndRoundTowardsZero);
  const std::vector<float> other = run(*device);
  const std::uint64_t after = float_mode();
  set_float_mode(mode);
  EXPECT_EQ(other, expected);
  EXPECT_EQ(after & kFlushAndRoundTowardsZero, kFlushAndRoundTowardsZero);
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
  if (plan->host().y_alignment == 1) GTEST_SKIP() << "streaming stores of " << to_text(plan->target) << " take any alignment";
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
  EXPECT_NE(refused.error().message.find("up to 16 bytes"), std::string::npos) << refused.error().message;
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

// Runs tasks as a test wants.
class TestExecutor final : public Executor {
 public:
  using Run = std::function<void(int count, const std::function<void(int)>& task)>;
  TestExecutor(int threads, Run run) : threads_(threads), run_(std::move(run)) {}
  int threads() const override { return threads_; }
  void run(int count, const std::function<void(int)>& task) override { run_(count, task); }

 private:
  int threads_;
  Run run_;
};

void run_in_order(int count, const std::function<void(int)>& task) {
  for (int i = 0; i < count; ++i) task(i);
}

std::unique_ptr<Device> make_with(int threads, TestExecutor::Run run) {
  auto device = make_host_device(std::make_shared<TestExecutor>(threads, std::move(run)));
  EXPECT_TRUE(device.ok());
  return std::move(*device);
}

TEST_F(HostLaunch, ResultDoesNotDependOnTheExecutor) {
  const std::vector<float> expected = run(*make(1));
  int most = 0;
  const auto backwards = make_with(5, [&](int count, const std::function<void(int)>& task) {
    most = std::max(most, count);
    for (int i = count - 1; i >= 0; --i) task(i);
  });
  EXPECT_EQ(run(*backwards), expected);
  EXPECT_EQ(most, 5) << "as many shares as threads, where there is work for them";
  EXPECT_EQ(backwards->info().units, 5);
  const auto all_at_once = make_with(4, [](int count, const std::function<void(int)>& task) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&task, i] { task(i); });
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(run(*all_at_once), expected);
  EXPECT_EQ(run(*make_with(3, run_in_order)), expected);
  const auto nothing_twice = make_with(3, [](int count, const std::function<void(int)>& task) {
    run_in_order(count, task);
    run_in_order(count + 2, task);
  });
  EXPECT_EQ(run(*nothing_twice), expected);
}

TEST_F(HostLaunch, ALaunchOfOneShareNeedsNoExecutor) {
  const auto device = make_with(1, [](int, const std::function<void(int)>&) { FAIL() << "asked for"; });
  EXPECT_EQ(run(*device), run(*make(1)));
}

TEST_F(HostLaunch, AnExecutorServesLaunchesFromSeveralThreads) {
  const std::vector<float> expected = run(*make(1));
  const auto device = make_with(3, run_in_order);
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> callers;
  for (std::vector<float>& result : results) callers.emplace_back([&] { result = run(*device); });
  for (std::thread& caller : callers) caller.join();
  for (const std::vector<float>& result : results) EXPECT_EQ(result, expected);
}

TEST_F(HostLaunch, AnExecutorThatFailsIsAnError) {
  const std::pair<TestExecutor::Run, const char*> failing[] = {
      {[](int, const std::function<void(int)>&) { throw std::runtime_error("the queue is closed"); }, "the queue is closed"},
      {[](int, const std::function<void(int)>&) { throw 7; }, "no std::exception"},
      {[](int count, const std::function<void(int)>& task) { run_in_order(count - 1, task); }, "ran 2 of 3 tasks"},
      {[](int count, const std::function<void(int)>& task) { run_in_order(count, [&](int) { task(0); }); }, "ran 1 of 3 tasks"},
  };
  for (const auto& [wrong, message] : failing) {
    const auto device = make_with(3, wrong);
    const auto kernel = device->load(fixtures::norm_artifact(HEADNORM_FIXTURE_NORM), plan_);
    ASSERT_TRUE(kernel.ok());
    std::vector<float> y(x_.size());
    LaunchArguments arguments;
    arguments.address(Operand::x) = x_.data();
    arguments.address(Operand::y) = y.data();
    arguments.stride(Operand::x) = arguments.stride(Operand::y) = plan_.spec.width;
    EXPECT_TRUE(device->launch(**kernel, arguments).ok()) << "no rows, no tasks";
    arguments.rows = kRows;
    const auto launched = device->launch(**kernel, arguments);
    ASSERT_FALSE(launched.ok()) << message;
    EXPECT_NE(launched.error().message.find(message), std::string::npos) << launched.error().message;
  }
}

TEST_F(HostLaunch, TheDeviceKeepsItsExecutor) {
  auto executor = std::make_shared<TestExecutor>(2, run_in_order);
  const std::weak_ptr<TestExecutor> watched = executor;
  auto device = make_host_device(std::move(executor));
  ASSERT_TRUE(device.ok());
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(run(**device), run(*make(1)));
  device->reset();
  EXPECT_TRUE(watched.expired());
}

TEST(HostDevice, RefusesAnImpossibleExecutor) {
  EXPECT_FALSE(make_host_device(std::shared_ptr<Executor>()).ok());
  for (int threads : {0, -1, 1 << 20}) EXPECT_FALSE(make_host_device(std::make_shared<TestExecutor>(threads, run_in_order)).ok());
}

TEST(HostDevice, RefusesAnImpossibleNumberOfThreads) {
  EXPECT_FALSE(make_host_device(-1).ok());
  EXPECT_FALSE(make_host_device(1 << 20).ok());
}

}  // namespace
}  // namespace headnorm::host
