// Serving from a warmed table: nothing is compiled or read any more, a table is told by its digest, and what is tuned meanwhile
// changes nothing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "runtime/database/table_digest.h"
#include "runtime/headnorm.h"
#include "tests/fixtures/fake_backend.h"
#include "tests/fixtures/memory_database.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

namespace fs = std::filesystem;
using fixtures::FakeBackend;

constexpr std::int64_t kWidth = 96;
constexpr std::int64_t kRows[] = {4, 64};

class Warm : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = make_host_device(1);
    ASSERT_TRUE(device.ok());
    device_ = std::move(*device);
    y_ = std::move(*device_->allocate(x_.size() * sizeof(float)));
    database_ = Database::open(root_).value();
    for (std::int64_t rows : kRows) publish(*database_, device_->info(), rows, 384 * rows, &backend_);
    backend_.compilations = 0;
  }

  // A record as the tuner leaves it, told by the block size of its schedule; with its kernel if there is a backend.
  Record publish(Database& database, const DeviceInfo& device, std::int64_t rows, std::int64_t block_bytes, FakeBackend* backend) {
    HostSchedule schedule;
    schedule.store = StoreKind::plain;
    schedule.block_bytes = block_bytes;
    const Plan plan = make_plan(spec_, schedule, device.target).value();
    Record record;
    record.id = record_id(plan.spec, rows, device, CachePolicy::cold);
    record.spec = plan.spec;
    record.rows = rows;
    record.device = device;
    record.schedule = plan.schedule;
    record.time = {1, 1, 1, 1};
    if (backend != nullptr) record.kernel = database.store_kernel(backend->compile(plan).value()).value();
    EXPECT_TRUE(database.publish(record).ok());
    return record;
  }

  Result<LaunchReport> launch(Runtime& runtime, const KernelSpec& spec, std::int64_t rows) {
    LaunchArguments arguments;
    arguments.rows = rows;
    arguments.address(Operand::x) = x_.data();
    arguments.address(Operand::y) = y_.address();
    arguments.stride(Operand::x) = arguments.stride(Operand::y) = kWidth;
    *static_cast<float*>(y_.address()) = 0;
    return runtime.run(spec, arguments);
  }

  test::TemporaryDirectory directory_;
  fs::path root_ = directory_.path() / "db";
  KernelSpec spec_ = fixtures::norm_spec();
  std::unique_ptr<Device> device_;
  std::unique_ptr<Database> database_;
  FakeBackend backend_{HEADNORM_FIXTURE_NORM};
  std::vector<float> x_ = std::vector<float>(1024 * kWidth, 4.0f);
  Buffer y_;  // aligned, as streaming stores ask
};

TEST_F(Warm, AHundredLaunchesCompileAndReadNothing) {
  Runtime runtime(*device_, database_.get(), &backend_, JitMode::forbidden);
  const auto warmed = runtime.warm(*database_);
  ASSERT_TRUE(warmed.ok()) << warmed.error().message;
  EXPECT_EQ(warmed->records, 2);
  EXPECT_GE(warmed->kernels, 2);
  EXPECT_TRUE(warmed->missing.empty());
  EXPECT_TRUE(warmed->shadowed.empty());
  fs::remove_all(root_);  // what is not in memory cannot come from anywhere
  for (int i = 0; i < 100; ++i) {
    const auto report = launch(runtime, spec_, kRows[i % 2]);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->served, Served::exact);
    EXPECT_EQ(*static_cast<float*>(y_.address()), 1.0f);
  }
  EXPECT_EQ(backend_.compilations, 0);
}

TEST_F(Warm, AnotherRowCountTakesTheNearestRecordsKernel) {
  Runtime runtime(*device_, database_.get(), nullptr);
  ASSERT_TRUE(runtime.warm(*database_).ok());
  fs::remove_all(root_);
  const auto report = launch(runtime, spec_, 65);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->served, Served::nearest_rows);
}

TEST_F(Warm, AnUnknownShapeIsAnErrorAtOnce) {
  Runtime runtime(*device_, database_.get(), &backend_, JitMode::forbidden);
  ASSERT_TRUE(runtime.warm(*database_).ok());
  KernelSpec unknown = spec_;
  unknown.eps = 1e-5;
  const auto report = launch(runtime, unknown, 4);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("eps=1e-05"), std::string::npos) << report.error().message;
  EXPECT_NE(report.error().remedy.find("prepare()"), std::string::npos) << report.error().remedy;
  EXPECT_EQ(backend_.compilations, 0);
}

TEST_F(Warm, AnUnknownShapeGetsTheDefaultWhereItsKernelIsLoaded) {
  KernelSpec other = spec_;
  other.eps = 1e-5;
  const Plan plan = make_plan(other, default_schedule(other, device_->info().target), device_->info().target).value();
  ASSERT_TRUE(database_->store_kernel(backend_.compile(plan).value()).ok());
  Runtime runtime(*device_, database_.get(), &backend_, JitMode::forbidden);
  ASSERT_TRUE(runtime.warm(*database_).ok());
  ASSERT_TRUE(runtime.prepare(other, 8).ok());
  backend_.compilations = 0;
  fs::remove_all(root_);
  const auto report = launch(runtime, other, 9);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->served, Served::fallback);
  EXPECT_EQ(backend_.compilations, 0);
}

TEST_F(Warm, ARecordWithoutAKernelIsCompiledOrNamed) {
  const Record bare = publish(*database_, device_->info(), 512, 1152, nullptr);
  Runtime serving(*device_, database_.get(), &backend_, JitMode::forbidden);
  const auto named = serving.warm(*database_);
  ASSERT_TRUE(named.ok());
  ASSERT_EQ(named->missing.size(), 1u);
  EXPECT_EQ(named->missing[0].record, bare.id);
  EXPECT_NE(named->missing[0].error.message.find("forbidden"), std::string::npos);

  Runtime compiling(*device_, database_.get(), &backend_);
  const auto compiled = compiling.warm(*database_);
  ASSERT_TRUE(compiled.ok());
  EXPECT_TRUE(compiled->missing.empty());
  const int compilations = backend_.compilations;
  EXPECT_GT(compilations, 0);
  for (std::int64_t rows : {4, 64, 512, 700}) ASSERT_TRUE(launch(compiling, spec_, rows).ok());
  EXPECT_EQ(backend_.compilations, compilations);
}

TEST_F(Warm, ARecordOfAShapeThatWasLaunchedBeforeIsShadowedAndNotMissing) {
  fixtures::MemoryDatabase nothing;
  Runtime runtime(*device_, &nothing, &backend_);
  const auto before = launch(runtime, spec_, kRows[0]);
  ASSERT_TRUE(before.ok()) << before.error().message;
  ASSERT_EQ(before->served, Served::fallback);
  const auto warmed = runtime.warm(*database_);
  ASSERT_TRUE(warmed.ok()) << warmed.error().message;
  EXPECT_EQ(warmed->records, 2);
  EXPECT_TRUE(warmed->missing.empty()) << warmed->missing[0].error.message;
  const std::string record = record_id(make_spec(spec_).value(), kRows[0], device_->info(), CachePolicy::cold);
  EXPECT_EQ(warmed->shadowed, std::vector<std::string>{record});
  EXPECT_EQ(launch(runtime, spec_, kRows[0])->served, Served::fallback) << "it keeps what it had";
  EXPECT_EQ(launch(runtime, spec_, kRows[1])->served, Served::exact);
}

TEST_F(Warm, TheTableMayBeAnotherThanTheRuntimesDatabase) {
  const fs::path shipped = directory_.path() / "shipped";
  fs::create_directory(shipped);
  fs::copy(root_ / "records", shipped / "records");
  DatabaseOptions read_only;
  read_only.read_only = true;
  const auto table = Database::open(shipped, read_only);
  ASSERT_TRUE(table.ok()) << table.error().message;
  Runtime runtime(*device_, database_.get(), &backend_, JitMode::forbidden);
  const auto warmed = runtime.warm(**table);
  ASSERT_TRUE(warmed.ok());
  EXPECT_EQ(warmed->kernels, 2) << "records of one place, kernels of another";
  EXPECT_EQ(launch(runtime, spec_, 4)->served, Served::exact);
}

TEST_F(Warm, RecordsOfAnotherDeviceInAMergedTableAreNeverServed) {
  DeviceInfo other = device_->info();
  other.units += 1;
  const Record foreign = publish(*database_, other, 4, 1920, &backend_),
               only_theirs = publish(*database_, other, 512, 768, &backend_);
  Runtime runtime(*device_, database_.get(), nullptr);
  const auto warmed = runtime.warm(*database_);
  ASSERT_TRUE(warmed.ok());
  EXPECT_EQ(warmed->records, 2);
  for (std::int64_t rows : {4, 64, 512}) {
    const auto report = runtime.look_up(spec_, rows);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->served == Served::exact, rows != 512) << rows;
    EXPECT_FALSE(report->record == foreign.id || report->record == only_theirs.id) << rows;
  }
}

TEST_F(Warm, RanksThatNameOneDigestChooseAlikeWhateverIsTunedMeanwhile) {
  const std::string digest = table_digest(*database_->list());
  Runtime first(*device_, database_.get(), nullptr);
  ASSERT_TRUE(first.warm(*database_, digest).ok());

  // Somebody tunes on, and leaves a better record for a row count that nobody launched so far.
  publish(*database_, device_->info(), 100, 1152, &backend_);
  const std::string changed = table_digest(*database_->list());
  EXPECT_NE(changed, digest);

  Runtime second(*device_, database_.get(), nullptr);
  const auto refused = second.warm(*database_, digest);
  ASSERT_FALSE(refused.ok());
  for (const std::string& part : {digest, changed, root_.string()})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;

  const auto report = launch(first, spec_, 100);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->served, Served::nearest_rows) << "of the table as it was";
}

TEST_F(Warm, RanksInOtherProcessesSeeTheSameDigestOfACopy) {
  const fs::path copy = directory_.path() / "copy";
  fs::create_directory(copy);
  fs::copy(root_ / "records", copy / "records");
  const std::string digest = table_digest(*database_->list());
  for (const fs::path& place : {root_, copy}) {
    const int status = test::wait_for(test::start_process([&] {
      DatabaseOptions read_only;
      read_only.read_only = true;
      auto table = Database::open(place, read_only);
      return table.ok() && table_digest(*(*table)->list()) == digest;
    }));
    EXPECT_TRUE(test::succeeded(status)) << place;
  }
}

// A database whose first kernel is read while something else happens.
class SlowTable final : public fixtures::MemoryDatabase {
 public:
  std::vector<Record> records;
  std::function<void()> meanwhile;

  Result<std::vector<Record>> list(std::vector<Damage>*) override { return records; }
  Result<std::optional<Artifact>> find_kernel(const std::string& key) override {
    if (const auto now = std::exchange(meanwhile, nullptr)) now();
    return MemoryDatabase::find_kernel(key);
  }
};

TEST_F(Warm, ALaunchWhileKernelsAreLoadedIsServedAsBefore) {
  SlowTable table;
  for (std::int64_t rows : {4, 64}) table.records.push_back(publish(table, device_->info(), rows, 384 * rows, &backend_));
  Runtime runtime(*device_, &table, nullptr, JitMode::forbidden);
  table.record = table.records[1];
  std::optional<Result<LaunchReport>> before, after;
  table.meanwhile = [&] {
    before = std::async(std::launch::async, [&] { return launch(runtime, spec_, 64); }).get();
    EXPECT_EQ(runtime.look_up(spec_, 4)->record, table.records[1].id) << "half of the table is used already";
  };
  const auto warmed = runtime.warm(table);
  ASSERT_TRUE(warmed.ok());
  EXPECT_TRUE(warmed->missing.empty());
  ASSERT_TRUE(before.has_value());
  ASSERT_TRUE(before->ok()) << before->error().message;
  EXPECT_EQ((*before)->record, table.records[1].id);
  EXPECT_EQ(launch(runtime, spec_, 4)->record, table.records[0].id);
}

TEST_F(Warm, AChildOfForkDoesNotWaitForATableThatItsParentIsWarming) {
  SlowTable table;
  table.records.push_back(publish(table, device_->info(), 4, 384 * 4, &backend_));
  Runtime runtime(*device_, &table, nullptr, JitMode::forbidden);
  int status = -1;
  table.meanwhile = [&] {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(20);  // a child that waits for ever is ended by the signal
      const auto warmed = runtime.warm(table);
      ::_exit(warmed.ok() && warmed->missing.empty() && warmed->records == 1 ? 0 : 1);
    }
    ASSERT_EQ(::waitpid(child, &status, 0), child);
  };
  ASSERT_TRUE(runtime.warm(table).ok());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(Warm, ATableThatCannotBeUsedLeavesLaunchesAsTheyWere) {
  Runtime runtime(*device_, database_.get(), nullptr, JitMode::forbidden);
  ASSERT_FALSE(runtime.warm(*database_, "another digest").ok());
  EXPECT_EQ(launch(runtime, spec_, 4)->served, Served::exact);
}

TEST_F(Warm, EveryLaunchOfManyThreadsIsServedBeforeWhileAndAfterItIsWarmed) {
  Runtime runtime(*device_, database_.get(), nullptr, JitMode::forbidden);
  std::atomic<int> launches = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      const Buffer y = *device_->allocate(256 * kWidth * sizeof(float));
      LaunchArguments arguments;
      arguments.address(Operand::x) = x_.data();
      arguments.address(Operand::y) = y.address();
      arguments.stride(Operand::x) = arguments.stride(Operand::y) = kWidth;
      // New row counts again and again: each is looked up, and none is remembered from before.
      for (std::int64_t rows = 1 + i; rows < 30 || (!done && rows < 256); rows += 3) {
        ++launches;
        arguments.rows = rows;
        const auto report = runtime.run(spec_, arguments);
        ASSERT_TRUE(report.ok()) << report.error().message;
        ASSERT_NE(report->served, Served::fallback);
      }
    });
  while (launches < 3) std::this_thread::yield();
  const auto warmed = runtime.warm(*database_);
  done = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(warmed.ok());
  EXPECT_TRUE(warmed->missing.empty()) << warmed->missing[0].error.message;
  EXPECT_EQ(launch(runtime, spec_, 250)->served, Served::nearest_rows);
}

TEST_F(Warm, LookUpLoadsNothing) {
  Runtime runtime(*device_, nullptr, &backend_);
  const auto report = runtime.look_up(spec_, 4);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->served, Served::fallback);
  EXPECT_EQ(backend_.compilations, 0);
  EXPECT_FALSE(runtime.look_up(KernelSpec{}, 4).ok());
  EXPECT_FALSE(runtime.look_up(spec_, -1).ok());
}

}  // namespace
}  // namespace headnorm
