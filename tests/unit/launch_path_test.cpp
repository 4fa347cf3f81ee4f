// What a launch of a shape that was seen before costs: no memory, no lock, no file, no compiler; and readers beside a writer.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <type_traits>

#include "runtime/executor.h"
#include "runtime/headnorm.h"
#include "runtime/insert_only_map.h"
#include "tests/fixtures/fake_backend.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/memory_database.h"
#include "tests/support/call_counts.h"

namespace headnorm {
namespace {

// Counts memory and locks from its making on.
struct Counts {
  long allocations = test::allocations(), locks = test::locks();
  void expect_nothing() const {
    EXPECT_EQ(test::allocations() - allocations, 0);
    EXPECT_EQ(test::locks() - locks, 0);
  }
};

TEST(CallCounts, CountMemoryAndLocks) {
  const Counts counts;
  std::mutex mutex;
  const auto memory = std::make_unique<std::array<char, 1000>>();
  const std::lock_guard lock(mutex);
  EXPECT_GE(test::allocations() - counts.allocations, 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_GE(test::locks() - counts.locks, 1);
#endif
}

constexpr std::int64_t kRows = 4096, kWidth = 96;  // several shares of host::kMinShareBytes

// Runs tasks in turn on the calling thread.
class InTurn final : public Executor {
 public:
  int threads() const override { return 4; }
  void run(int count, const std::function<void(int)>& task) override {
    runs += count;
    for (int i = 0; i < count; ++i) task(i);
  }
  int runs = 0;
};

class LaunchPath : public ::testing::Test {
 protected:
  LaunchPath() {
    arguments_.rows = kRows;
    arguments_.address(Operand::x) = x_.data();
    arguments_.address(Operand::y) = y_.data();
    arguments_.stride(Operand::x) = arguments_.stride(Operand::y) = kWidth;
  }
  // Without streaming stores the kernel takes any address.
  static KernelSpec spec() { return fixtures::norm_spec(); }

  std::vector<float> x_ = std::vector<float>(kRows * kWidth, 4.0f), y_ = std::vector<float>(kRows * kWidth);
  LaunchArguments arguments_;
  fixtures::MemoryDatabase database_;
  fixtures::FakeBackend backend_{HEADNORM_FIXTURE_NORM};
};

TEST_F(LaunchPath, AHostLaunchOfAKnownShapeTakesNoMemoryAndNoLock) {
  const auto executor = std::make_shared<InTurn>();
  const auto device = make_host_device(executor);
  ASSERT_TRUE(device.ok());
  Runtime runtime(**device, &database_, &backend_);
  ASSERT_TRUE(runtime.prepare(spec(), arguments_).ok());
  const Counts counts;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(runtime.run(spec(), arguments_).ok());
  counts.expect_nothing();
  EXPECT_GT(executor->runs, 100) << "launches were not shared out";
  EXPECT_EQ(y_.front(), 1.0f);
  EXPECT_EQ(y_.back(), 1.0f);
}

TEST_F(LaunchPath, AnEmptyBatchTakesNoMemoryAndNoLock) {
  const auto device = make_host_device(1);
  ASSERT_TRUE(device.ok());
  Runtime runtime(**device, &database_, &backend_);
  arguments_.rows = 0;
  const auto first = runtime.run(spec(), arguments_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->served, Served::fallback);
  const Counts counts;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(runtime.run(spec(), arguments_).ok());
  counts.expect_nothing();
  EXPECT_EQ(backend_.compilations, 0);
  EXPECT_EQ(y_.front(), 0.0f);

  arguments_.rows = -1;
  EXPECT_FALSE(runtime.run(spec(), arguments_).ok());
  KernelSpec illegal = spec();
  illegal.head_size = 5;
  arguments_.rows = 0;
  EXPECT_FALSE(runtime.run(illegal, arguments_).ok());
}

// A compiler for a driver that takes any text.
class AnyText final : public CodegenBackend {
 public:
  std::string identity() const override { return "text"; }
  Result<Artifact> compile(const Plan& plan) override {
    return Artifact{ArtifactKind::ptx, entry_name(plan), ".version 7.8", artifact_key(plan, identity()), identity()};
  }
};

TEST_F(LaunchPath, AGpuLaunchOfAKnownShapeTakesNoMemoryAndNoLock) {
  void* const library = ::dlopen(HEADNORM_FAKE_DRIVER, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto* const driver = reinterpret_cast<fixtures::FakeDriver* (*)()>(::dlsym(library, "fake_driver"))();
  driver->keeps_launches = false;
  const auto device = make_cuda_device({HEADNORM_FAKE_DRIVER, "cuda", {}}, 0);
  ASSERT_TRUE(device.ok()) << device.error().message;
  AnyText compiler;
  Runtime runtime(**device, nullptr, &compiler);
  KernelSpec fused = spec();
  fused.residual = Residual::add;
  int stream = 0;
  arguments_.stream = &stream;
  arguments_.address(Operand::x) = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
  arguments_.address(Operand::residual) = reinterpret_cast<void*>(std::uintptr_t{2} << 40);
  arguments_.address(Operand::y) = reinterpret_cast<void*>(std::uintptr_t{3} << 40);
  arguments_.address(Operand::residual_out) = reinterpret_cast<void*>(std::uintptr_t{4} << 40);
  for (Operand operand : kOperands) arguments_.stride(operand) = kWidth;
  const auto prepared = runtime.run(fused, arguments_);
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  const Counts counts;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(runtime.run(fused, arguments_).ok());
  counts.expect_nothing();
}

TEST_F(LaunchPath, ARecordIsReportedWithoutMemory) {
  Record record;
  record.id = "0123456789abcdef0123456789abcdef";
  const auto device = make_host_device(1);
  ASSERT_TRUE(device.ok());
  record.schedule = default_schedule(spec(), (*device)->info().target);
  database_.record = record;
  Runtime runtime(**device, &database_, &backend_);
  ASSERT_TRUE(runtime.prepare(spec(), arguments_).ok());
  const Counts counts;
  const auto report = runtime.run(spec(), arguments_);
  counts.expect_nothing();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->record, record.id);
}

// Every launch copies one: no counts that threads share, no memory.
static_assert(std::is_trivially_copyable_v<LaunchReport>);

TEST_F(LaunchPath, TheWordsOfAReportLiveAsLongAsTheRuntime) {
  const auto device = make_host_device(1);
  ASSERT_TRUE(device.ok());
  Runtime runtime(**device, &database_, &backend_);
  const auto first = runtime.look_up(spec(), 1);
  ASSERT_TRUE(first.ok());
  for (std::int64_t rows = 2; rows < 200; ++rows) ASSERT_TRUE(runtime.prepare(spec(), rows).ok());
  EXPECT_EQ(first->from, "the default: nothing is known of this shape here");
  EXPECT_EQ(runtime.prepare(spec(), 1)->from.data(), first->from.data()) << "kept once, however many shapes there are";
}

TEST_F(LaunchPath, ShapesAreFoundWhileOthersAreAdded) {
  const auto device = make_host_device(1);
  ASSERT_TRUE(device.ok());
  Runtime runtime(**device, &database_, &backend_);
  ASSERT_TRUE(runtime.prepare(spec(), kRows).ok());
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      std::vector<float> y(kWidth);
      LaunchArguments one = arguments_;
      one.rows = 1;
      one.address(Operand::y) = y.data();
      while (!done) {
        ASSERT_TRUE(runtime.run(spec(), one).ok());
        ASSERT_EQ(y.front(), 1.0f);
      }
    });
  for (std::int64_t rows = 2; rows < 600; ++rows) EXPECT_TRUE(runtime.prepare(spec(), rows).ok());
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_LE(backend_.compilations, 2);
}

struct SameHash {
  std::size_t operator()(int) const { return 7; }
};

TEST(InsertOnlyMap, KeepsTheFirstValueOfAKeyAndItsPlace) {
  InsertOnlyMap<int, int, std::hash<int>> map;
  const int* const first = map.insert(3, 30, 10000);
  EXPECT_EQ(map.insert(3, 31, 10000), first);
  for (int i = 0; i < 5000; ++i) map.insert(i, i * 10, 10000);
  EXPECT_EQ(map.find(3), first);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(*map.find(i), i * 10);
  EXPECT_EQ(map.find(5000), nullptr);
}

TEST(InsertOnlyMap, KeysOfOneHashAreToldApart) {
  InsertOnlyMap<int, int, SameHash> map;
  for (int i = 0; i < 100; ++i) map.insert(i, -i, 1000);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(*map.find(i), -i);
  EXPECT_EQ(map.find(100), nullptr);
}

// A place that was free when a reader looked at it may be taken by another key in the next moment.
TEST(InsertOnlyMap, AKeyThatIsNotThereIsNotFoundWhileOthersAreAdded) {
  for (int round = 0; round < 20; ++round) {
    InsertOnlyMap<int, int, SameHash> map;
    std::atomic<bool> done = false;
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i)
      readers.emplace_back([&] {
        while (!done) ASSERT_EQ(map.find(-1), nullptr);
      });
    for (int i = 0; i < 500; ++i) map.insert(i, i, 1000);
    done = true;
    for (std::thread& reader : readers) reader.join();
  }
}

TEST(InsertOnlyMap, StopsAtItsLimit) {
  InsertOnlyMap<int, int, std::hash<int>> map;
  EXPECT_NE(map.insert(1, 1, 2), nullptr);
  EXPECT_NE(map.insert(2, 2, 2), nullptr);
  EXPECT_EQ(map.insert(3, 3, 2), nullptr);
  EXPECT_NE(map.insert(1, 1, 2), nullptr);
  EXPECT_EQ(map.find(3), nullptr);
}

}  // namespace
}  // namespace headnorm
