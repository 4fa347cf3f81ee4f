// How much compiled code a database keeps: never more than its limit, except for what is young; what was used last stays.
#include "runtime/database/kernel_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/support/database_samples.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCodeBytes = 10000;

class KernelLimitTest : public ::testing::Test {
 protected:
  Artifact artifact(int number) const {
    return test::sample_artifact(test::sample_plan(test::sample_spec(), test::sample_device()), "backend-" + std::to_string(number),
                                 std::string(kCodeBytes, 'x') + std::to_string(number));
  }
  fs::path entry(int number) const { return root_ / "kernels" / (artifact(number).key + ".json"); }
  fs::path code(int number) const { return root_ / "kernels" / (test::sample_kernel(artifact(number)).sha256 + ".o"); }

  static void make_older(const fs::path& file, std::chrono::seconds age) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - age);
  }

  // Kernels 0, 1, ... `count`-1, each used an hour before the next; the last a day ago.
  void store(Database& database, int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(database.store_kernel(artifact(i)).ok());
      for (const fs::path& file : {entry(i), code(i)}) make_older(file, std::chrono::hours(24 + count - i));
    }
  }

  Collected collect(const KernelLimit& limit) {
    FileOps ops;
    const fs::path path = root_ / "kernels";
    const auto kernels = Directory::open(AT_FDCWD, path.string(), path, Trust::code);
    return collect_kernels(ops, **kernels, limit).value();
  }

  std::int64_t bytes_stored() const {
    std::int64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(root_ / "kernels")) bytes += static_cast<std::int64_t>(file.file_size());
    return bytes;
  }

  bool is_found(Database& database, int number) const { return database.find_kernel(artifact(number).key)->has_value(); }

  test::TemporaryDirectory directory_;
  fs::path root_ = directory_.path() / "db";
};

TEST_F(KernelLimitTest, KeepsWhatWasUsedLastWithinTheLimit) {
  std::unique_ptr<Database> database = Database::open(root_).value();
  store(*database, 8);
  const std::int64_t limit = bytes_stored() / 2;
  const Collected collected = collect({.bytes = limit, .grace_seconds = 3600});
  EXPECT_EQ(collected.kept, 4);
  EXPECT_EQ(collected.removed, 4);
  EXPECT_EQ(collected.kept_bytes, bytes_stored());
  EXPECT_LE(bytes_stored(), limit);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(is_found(*database, i), i >= 4) << i;
  EXPECT_TRUE(database->check()->empty());
}

TEST_F(KernelLimitTest, UsingAKernelKeepsIt) {
  std::unique_ptr<Database> database = Database::open(root_).value();
  store(*database, 8);
  ASSERT_TRUE(is_found(*database, 0)) << "the oldest is used now";
  const auto used = fs::last_write_time(entry(0));
  collect({.bytes = bytes_stored() / 4, .grace_seconds = 0});
  EXPECT_TRUE(is_found(*database, 0));
  EXPECT_TRUE(is_found(*database, 7));
  EXPECT_FALSE(is_found(*database, 6));
  EXPECT_EQ(fs::last_write_time(entry(0)), used) << "a second use within the hour writes nothing";
}

TEST_F(KernelLimitTest, WhatIsYoungerThanTheGraceTimeStays) {
  std::unique_ptr<Database> database = Database::open(root_).value();
  store(*database, 4);
  for (const fs::path& file : {entry(1), code(1)}) make_older(file, std::chrono::minutes(30));
  const Collected collected = collect({.bytes = 0, .grace_seconds = 3600});
  EXPECT_EQ(collected.kept, 1);
  EXPECT_EQ(collected.removed, 3);
  EXPECT_TRUE(is_found(*database, 1));
  EXPECT_EQ(collected.kept_bytes, bytes_stored());
}

TEST_F(KernelLimitTest, CodeThatAnEntryStillNamesStays) {
  std::unique_ptr<Database> database = Database::open(root_).value();
  store(*database, 1);
  Artifact twin = artifact(0);
  twin.key = artifact(1).key;  // another key of the same bytes
  ASSERT_TRUE(database->store_kernel(twin).ok());
  make_older(entry(0), std::chrono::hours(100));
  make_older(code(0), std::chrono::hours(100));
  collect({.bytes = bytes_stored() - 1, .grace_seconds = 3600});
  EXPECT_FALSE(fs::exists(entry(0)));
  EXPECT_TRUE(fs::exists(code(0)));
  EXPECT_TRUE(is_found(*database, 1));
}

TEST_F(KernelLimitTest, DamagedEntriesAndCodeThatNothingNamesGoFirst) {
  std::unique_ptr<Database> database = Database::open(root_).value();
  store(*database, 3);
  test::write_file(entry(2), "damaged");
  make_older(entry(2), std::chrono::hours(2));
  collect({.bytes = bytes_stored() - 1, .grace_seconds = 3600});
  EXPECT_FALSE(fs::exists(entry(2)));
  EXPECT_FALSE(fs::exists(code(2)));
  EXPECT_TRUE(is_found(*database, 0));
  EXPECT_TRUE(is_found(*database, 1));
}

TEST_F(KernelLimitTest, StoringKeepsToTheLimitOfTheDatabase) {
  DatabaseOptions options;
  options.kernel_limit = {.bytes = 4 * static_cast<std::int64_t>(kCodeBytes), .grace_seconds = 3600};
  std::unique_ptr<Database> database = Database::open(root_, options).value();
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(database->store_kernel(artifact(i)).ok());
    EXPECT_TRUE(is_found(*database, i)) << "never the one that was just stored";
    for (const fs::path& file : {entry(i), code(i)}) make_older(file, std::chrono::hours(50 - i));
    EXPECT_LE(bytes_stored(), options.kernel_limit.bytes + 2 * static_cast<std::int64_t>(kCodeBytes)) << "one is young";
  }
  EXPECT_FALSE(is_found(*database, 0));
}

TEST_F(KernelLimitTest, FilesThatCannotBeRemovedStayAndAreCounted) {
  std::unique_ptr<Database> database = Database::open(root_).value();
  store(*database, 3);
  test::FaultyFileOps ops([](const std::string& call) { return call == "remove" ? -EBUSY : 0; });
  const fs::path path = root_ / "kernels";
  const auto kernels = Directory::open(AT_FDCWD, path.string(), path, Trust::code);
  const Collected collected = collect_kernels(ops, **kernels, {.bytes = 0, .grace_seconds = 0}).value();
  EXPECT_EQ(collected.kept, 3);
  EXPECT_EQ(collected.removed_bytes, 0);
  EXPECT_EQ(collected.kept_bytes, bytes_stored());
  EXPECT_FALSE(collect_kernels(ops, **kernels, {.bytes = -1, .grace_seconds = 0}).ok());
}

}  // namespace
}  // namespace headnorm
