// Several processes at one database, and processes that are killed in the middle of publishing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "runtime/database/directory_database.h"
#include "tests/support/database_samples.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

namespace fs = std::filesystem;
using test::sample_record;
using test::start_process;
using test::succeeded;
using test::wait_for;

// A barrier that forked processes share.
class SharedBarrier {
 public:
  explicit SharedBarrier(unsigned processes)
      : barrier_(static_cast<pthread_barrier_t*>(
            ::mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier_, &attributes, processes);
  }
  SharedBarrier(const SharedBarrier&) = delete;
  SharedBarrier& operator=(const SharedBarrier&) = delete;
  ~SharedBarrier() { ::munmap(barrier_, sizeof(pthread_barrier_t)); }
  void wait() { pthread_barrier_wait(barrier_); }

 private:
  pthread_barrier_t* barrier_;
};

int count_temporaries(const fs::path& root) {
  int count = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root))
    count += entry.path().filename().string().rfind(".tmp-", 0) == 0;
  return count;
}

int count_files(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

Artifact round_artifact(int round) {
  return test::sample_artifact(test::sample_plan(test::sample_spec(), test::sample_device()), "round-" + std::to_string(round),
                               std::string(3000, 'x') + std::to_string(round));
}

TEST(DatabaseRace, SixteenProcessesPublishOneColdKey) {
  constexpr int kProcesses = 16, kRounds = 200;
  const test::TemporaryDirectory directory;
  const fs::path root = directory.path() / "db";
  SharedBarrier barrier(kProcesses);
  const auto race = [&] {
    std::unique_ptr<Database> database = Database::open(root).value();
    bool right = true;
    for (int round = 0; round < kRounds; ++round) {
      const Artifact artifact = round_artifact(round);
      barrier.wait();
      const Result<StoredKernel> stored = database->store_kernel(artifact);
      const Result<std::optional<Artifact>> found = database->find_kernel(artifact.key);
      right = right && stored.ok() && found.ok() && found->has_value() && (*found)->bytes == artifact.bytes;
    }
    return right;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) children.push_back(start_process(race));
  for (pid_t child : children) EXPECT_TRUE(succeeded(wait_for(child)));

  EXPECT_EQ(count_files(root / "kernels"), 2 * kRounds);  // a blob and a pointer for each key
  EXPECT_EQ(count_temporaries(root), 0);
  EXPECT_TRUE(Database::open(root).value()->check()->empty());
}

TEST(DatabaseRace, NoRecordOfConcurrentWritersIsLost) {
  constexpr int kProcesses = 8, kRecords = 12;
  const test::TemporaryDirectory directory;
  const fs::path root = directory.path() / "db";
  SharedBarrier barrier(kProcesses);
  const Record contested = sample_record(test::sample_spec(), 999);
  Record predicted = contested;
  predicted.evidence = Evidence::predicted;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(start_process([&, i] {
      std::unique_ptr<Database> database = Database::open(root).value();
      bool right = true;
      barrier.wait();
      for (int j = 0; j < kRecords; ++j) {
        right = right && database->publish(sample_record(test::sample_spec(), 1000 + i * kRecords + j)).ok();
        right = right && database->publish(i == 0 && j == kRecords / 2 ? contested : predicted).ok();
      }
      return right;
    }));
  }
  for (pid_t child : children) EXPECT_TRUE(succeeded(wait_for(child)));

  std::unique_ptr<Database> database = Database::open(root).value();
  EXPECT_EQ(database->list()->size(), static_cast<std::size_t>(kProcesses * kRecords + 1));
  EXPECT_EQ(database->find(contested.id)->value().evidence, Evidence::measured);
  EXPECT_TRUE(database->check()->empty());
  EXPECT_EQ(count_temporaries(root), 0);
}

TEST(DatabaseRace, KilledAtAnyCallTheNextRunIsRight) {
  const Record earlier = sample_record(test::sample_spec(), 8), later = sample_record(test::sample_spec(2048), 16);
  const Artifact earlier_kernel = test::sample_artifact(test::sample_plan(earlier.spec, earlier.device));
  const Artifact later_kernel = test::sample_artifact(test::sample_plan(later.spec, later.device));
  int calls = 0;
  for (bool killed = true; killed; ++calls) {
    const test::TemporaryDirectory directory;
    const fs::path root = directory.path() / "db";
    {
      std::unique_ptr<Database> database = Database::open(root).value();
      ASSERT_TRUE(database->store_kernel(earlier_kernel).ok() && database->publish(earlier).ok());
    }
    const int status = wait_for(start_process([&] {
      auto ops = std::make_unique<test::FaultyFileOps>(test::killed_after(calls));
      std::unique_ptr<Database> database = DirectoryDatabase::open(root, {}, std::move(ops)).value();
      return database->store_kernel(later_kernel).ok() && database->publish(later).ok();
    }));
    killed = !succeeded(status);
    ASSERT_TRUE(!killed || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));

    std::unique_ptr<Database> database = Database::open(root).value();
    EXPECT_EQ(to_json(database->find(earlier.id)->value()), to_json(earlier)) << calls;
    EXPECT_EQ(database->find_kernel(earlier_kernel.key)->value().bytes, earlier_kernel.bytes) << calls;
    EXPECT_TRUE(database->check()->empty()) << calls;
    const std::optional<Record> found = database->find(later.id).value();
    EXPECT_TRUE(!found || to_json(*found) == to_json(later)) << calls;
    const std::optional<Artifact> kernel = database->find_kernel(later_kernel.key).value();
    EXPECT_TRUE(!kernel || kernel->bytes == later_kernel.bytes) << calls;
    EXPECT_TRUE(killed || (found && kernel));

    ASSERT_TRUE(database->store_kernel(later_kernel).ok() && database->publish(later).ok()) << calls;
    EXPECT_EQ(database->list()->size(), 2u) << calls;
    EXPECT_EQ(database->find_kernel(later_kernel.key)->value().bytes, later_kernel.bytes) << calls;
    if (HasFailure()) return;
  }
  EXPECT_GT(calls, 20);  // create, write, sync, rename, sync of blob, pointer, record and index
}

TEST(DatabaseRace, TemporariesOfDeadWritersAreRemovedOnceTheyAreOld) {
  const test::TemporaryDirectory directory;
  const fs::path root = directory.path() / "db";
  ASSERT_TRUE(Database::open(root).ok());
  const auto now = fs::file_time_type::clock::now();
  for (const char* folder : {"", "records", "kernels"}) {
    test::write_file(root / folder / ".tmp-young", "half");
    test::write_file(root / folder / ".tmp-old", "half");
    fs::last_write_time(root / folder / ".tmp-old", now - std::chrono::hours(2));
  }
  DatabaseOptions read_only;
  read_only.read_only = true;
  ASSERT_TRUE(Database::open(root, read_only).ok());
  EXPECT_EQ(count_temporaries(root), 6);
  ASSERT_TRUE(Database::open(root).ok());
  EXPECT_EQ(count_temporaries(root), 3);
  for (const char* folder : {"", "records", "kernels"}) EXPECT_TRUE(fs::exists(root / folder / ".tmp-young"));
}

TEST(DatabaseRace, AHeldLockDelaysAWriterButDoesNotStopIt) {
  const test::TemporaryDirectory directory;
  const fs::path root = directory.path() / "db";
  std::unique_ptr<Database> database = Database::open(root).value();
  const int holder = ::open((root / "records").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(holder, 0);
  ASSERT_EQ(::flock(holder, LOCK_EX), 0);
  const Record record = sample_record();
  EXPECT_TRUE(database->publish(record).ok());
  EXPECT_TRUE(database->find(record.id)->has_value());
  ::close(holder);
}

// The child takes the lock, says so through the pipe, and keeps it until it is killed.
pid_t start_lock_holder(const fs::path& folder, int report) {
  return start_process([&, report] {
    const int holder = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool held = holder >= 0 && ::flock(holder, LOCK_EX) == 0;
    if (::write(report, held ? "1" : "0", 1) == 1) ::pause();
    return false;
  });
}

// The writer waits for a lock at most a second, and has it only if it was let go in that time.
TEST(DatabaseRace, TheLockOfAKilledHolderIsTakenOver) {
  const test::TemporaryDirectory directory;
  const fs::path root = directory.path() / "db";
  ASSERT_TRUE(Database::open(root).ok());
  int pipe[2] = {};
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t holder = start_lock_holder(root / "records", pipe[1]);
  char held = 0;
  ASSERT_EQ(::read(pipe[0], &held, 1), 1);
  ASSERT_EQ(held, '1');
  FileOps ops;
  const auto records = Directory::open(AT_FDCWD, (root / "records").string(), root / "records", Trust::data);
  ASSERT_TRUE(records.ok() && records->has_value());
  {
    const Result<Descriptor> refused = (*records)->lock(ops);
    ASSERT_TRUE(refused.ok());
    EXPECT_FALSE(refused->valid()) << "it is held";
  }
  ::kill(holder, SIGKILL);
  const Result<Descriptor> taken = (*records)->lock(ops);
  EXPECT_TRUE(taken.ok() && taken->valid());
  wait_for(holder);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

// Compiling takes no lock at all: whoever sleeps with every lock in hand holds up nobody who needs a kernel.
TEST(DatabaseRace, ASleeperWithEveryLockDelaysNoKernel) {
  const test::TemporaryDirectory directory;
  const fs::path root = directory.path() / "db";
  std::unique_ptr<Database> database = Database::open(root).value();
  int pipe[2] = {};
  ASSERT_EQ(::pipe(pipe), 0);
  std::vector<pid_t> holders;
  for (const fs::path& folder : {root, root / "records", root / "kernels"}) {
    holders.push_back(start_lock_holder(folder, pipe[1]));
    char held = 0;
    ASSERT_EQ(::read(pipe[0], &held, 1), 1);
    ASSERT_EQ(held, '1');
  }
  int locks = 0;
  auto ops = std::make_unique<test::FaultyFileOps>([&](const std::string& call) {
    locks += call == "lock";
    return 0;
  });
  std::unique_ptr<Database> other = DirectoryDatabase::open(root, {}, std::move(ops)).value();
  const Artifact artifact = round_artifact(0);
  EXPECT_TRUE(other->store_kernel(artifact).ok());
  EXPECT_TRUE(other->find_kernel(artifact.key)->has_value());
  EXPECT_EQ(locks, 0);
  for (pid_t holder : holders) {
    ::kill(holder, SIGKILL);
    wait_for(holder);
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace headnorm
