// A database on a network file system: renames and removals that are refused, files that show up late, locks that do not work. What
// is asked for comes from what this process made itself, and there is one warning.
//
// The system calls of this program are replaced by ones that behave like such a file system.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>

#include "runtime/headnorm.h"
#include "runtime/kernel_cache.h"
#include "tests/fixtures/fake_backend.h"
#include "tests/support/temporary_directory.h"

namespace {

struct FileSystem {
  std::atomic<int> rename_error{0}, remove_error{0}, lock_error{0};
  std::atomic<bool> hides_what_was_renamed{false};  // until `reveal`
  std::mutex mutex;                                 // of the next
  std::map<std::string, bool> hidden;               // by name

  void reset() {
    rename_error = remove_error = lock_error = 0;
    hides_what_was_renamed = false;
    reveal();
  }
  void reveal() {
    const std::lock_guard lock(mutex);
    hidden.clear();
  }
  bool is_hidden(const char* name) {
    const std::lock_guard lock(mutex);
    return hidden.count(name) != 0;
  }
};
FileSystem file_system;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int refuse(int error) {
  errno = error;
  return -1;
}

}  // namespace

extern "C" {

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  if (const int error = file_system.rename_error; error != 0) return refuse(error);
  const int result = next<int(int, const char*, int, const char*)>("renameat")(from_directory, from, to_directory, to);
  if (result == 0 && file_system.hides_what_was_renamed) {
    const std::lock_guard lock(file_system.mutex);
    file_system.hidden[to] = true;
  }
  return result;
}
int unlinkat(int directory, const char* name, int flags) {
  if (const int error = file_system.remove_error; error != 0) return refuse(error);
  return next<int(int, const char*, int)>("unlinkat")(directory, name, flags);
}
int flock(int descriptor, int operation) {
  if (const int error = file_system.lock_error; error != 0) return refuse(error);
  return next<int(int, int)>("flock")(descriptor, operation);
}
int openat(int directory, const char* name, int flags, ...) {
  if (file_system.is_hidden(name)) return refuse(ENOENT);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return next<int(int, const char*, int, ...)>("openat")(directory, name, flags, mode);
}
}

namespace headnorm {
namespace {

using fixtures::FakeBackend;

class NetworkFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = std::move(*make_host_device(1));
    DatabaseOptions options;
    options.warn = [this](const std::string& message) { warnings_.push_back(message); };
    database_ = Database::open(root_, options).value();
    plan_ = *fixtures::norm_plan();
  }
  void TearDown() override { file_system.reset(); }

  // A kernel that was compiled here, and its launch.
  void expect_own_kernel_runs(Database& database) {
    Runtime runtime(*device_, &database, &backend_);
    std::vector<float> x(4 * 96, 2.0f);
    const Buffer y = std::move(*device_->allocate(x.size() * sizeof(float)));  // aligned, as streaming stores ask
    LaunchArguments arguments;
    arguments.rows = 4;
    arguments.address(Operand::x) = x.data();
    arguments.address(Operand::y) = y.address();
    arguments.stride(Operand::x) = arguments.stride(Operand::y) = 96;
    for (int i = 0; i < 3; ++i) {
      const auto report = runtime.run(fixtures::norm_spec(), arguments);
      ASSERT_TRUE(report.ok()) << report.error().message;
    }
    EXPECT_EQ(static_cast<const float*>(y.address())[4 * 96 - 1], 1.0f);
  }

  Record record() const {
    Record record;
    record.device = device_->info();
    record.spec = plan_.spec;
    record.rows = 4;
    record.id = record_id(record.spec, record.rows, record.device, record.policy);
    record.schedule = default_schedule(plan_.spec, device_->info().target);
    record.time = {1, 1, 1, 1};
    return record;
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path root_ = directory_.path() / "db";
  std::unique_ptr<Device> device_;
  std::unique_ptr<Database> database_;
  std::vector<std::string> warnings_;
  Plan plan_;
  FakeBackend backend_{HEADNORM_FIXTURE_NORM};
};

TEST_F(NetworkFiles, RenamesThatAreRefusedLeaveTheOwnKernelAndOneWarning) {
  for (const int error : {EBUSY, EEXIST}) {
    SetUp();
    warnings_.clear();
    file_system.rename_error = error;
    expect_own_kernel_runs(*database_);
    EXPECT_FALSE(database_->publish(record()).ok());
    EXPECT_EQ(warnings_.size(), 1u) << error;
    file_system.reset();
    expect_own_kernel_runs(*database_);  // and is stored this time
    EXPECT_EQ(warnings_.size(), 1u);
    EXPECT_TRUE(database_->check()->empty());
    std::filesystem::remove_all(root_);
  }
}

TEST_F(NetworkFiles, RemovalsThatAreRefusedAsWellAreNoFurtherTrouble) {
  file_system.rename_error = EBUSY;
  file_system.remove_error = EBUSY;
  expect_own_kernel_runs(*database_);
  EXPECT_EQ(warnings_.size(), 1u);
  file_system.reset();
  EXPECT_TRUE(Database::open(root_).value()->check()->empty()) << "a temporary that stays is no damage";
}

TEST_F(NetworkFiles, CodeThatAnotherWriterPutThereFirstIsTheSameCode) {
  const Artifact artifact = backend_.compile(plan_).value();
  ASSERT_TRUE(database_->store_kernel(artifact).ok());
  const std::string entry = artifact.key + ".json";
  std::filesystem::rename(root_ / "kernels" / entry, root_ / entry);
  file_system.rename_error = EEXIST;
  EXPECT_FALSE(database_->store_kernel(artifact).ok()) << "the entry could not be written";
  EXPECT_NE(warnings_.at(0).find(entry), std::string::npos) << "not the code, which is there: " << warnings_.at(0);
}

TEST_F(NetworkFiles, AFileThatShowsUpLateIsAMissUntilThen) {
  file_system.hides_what_was_renamed = true;
  expect_own_kernel_runs(*database_);
  EXPECT_EQ(backend_.compilations, 1) << "for three launches: it is kept in memory";
  ASSERT_TRUE(database_->publish(record()).ok());
  KernelCache other(*device_, database_.get(), &backend_, JitMode::allowed);
  EXPECT_TRUE(other.get(plan_).ok());
  EXPECT_EQ(database_->look_up(plan_.spec, 4, device_->info())->served, Served::fallback) << "nobody sees the record yet";
  EXPECT_TRUE(warnings_.empty()) << warnings_.at(0);

  file_system.reset();
  EXPECT_TRUE(database_->find(record().id)->has_value());
  EXPECT_EQ(database_->look_up(plan_.spec, 4, device_->info())->served, Served::exact);
  backend_.compilations = 0;
  expect_own_kernel_runs(*database_);
  EXPECT_EQ(backend_.compilations, 0) << "it is stored";
  EXPECT_TRUE(database_->check()->empty());
}

TEST_F(NetworkFiles, LocksThatDoNotWorkAreOneWarning) {
  file_system.lock_error = ENOLCK;
  expect_own_kernel_runs(*database_);
  EXPECT_TRUE(warnings_.empty()) << "kernels are published without a lock";
  EXPECT_TRUE(database_->publish(record()).ok());
  EXPECT_TRUE(database_->publish(record()).ok());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("cannot be locked"), std::string::npos) << warnings_[0];
  EXPECT_TRUE(database_->find(record().id)->has_value());
}

}  // namespace
}  // namespace headnorm
