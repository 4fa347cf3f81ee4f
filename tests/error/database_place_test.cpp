// Where a database lies and what it is called: full or read-only disks, no home, odd paths, locales, and what a key is made of.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <fstream>
#include <locale>
#include <map>
#include <set>

#include "runtime/database/directory_database.h"
#include "tests/support/database_samples.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

namespace fs = std::filesystem;
using test::FaultyFileOps;
using test::sample_record;

class DatabasePlaceTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Database>> open(FaultyFileOps::Fault fault) {
    DatabaseOptions options;
    options.warn = [this](const std::string& message) { warnings.push_back(message); };
    return DirectoryDatabase::open(root, options, std::make_unique<FaultyFileOps>(std::move(fault)));
  }
  static FaultyFileOps::Fault failing(const std::string& call, int error) {
    return [=](const std::string& name) { return name == call ? -error : 0; };
  }
  template <class T>
  static void expect_environment_error(const Result<T>& result, const std::string& reason) {
    ASSERT_FALSE(result.ok()) << reason;
    EXPECT_EQ(result.error().kind, ErrorKind::environment);
    EXPECT_NE(result.error().message.find(reason), std::string::npos) << result.error().message;
    EXPECT_FALSE(result.error().remedy.empty());
  }

  test::TemporaryDirectory directory;
  fs::path root = directory.path() / "db";
  std::vector<std::string> warnings;
  Record record = sample_record();
  Artifact artifact = test::sample_artifact(test::sample_plan(record.spec, record.device));
};

TEST_F(DatabasePlaceTest, FullAndFailingDisksLoseNothingAndWarnOnce) {
  const Record earlier = sample_record(record.spec, 3);
  ASSERT_TRUE(Database::open(root).value()->publish(earlier).ok());
  const std::pair<const char*, int> faults[] = {{"create", ENOSPC}, {"create", EROFS}, {"create", EACCES},
                                                {"write", ENOSPC},  {"write", EDQUOT}, {"sync", EIO},
                                                {"sync", ENOSPC},   {"rename", EBUSY}, {"rename", EEXIST}};
  for (const auto& [call, error] : faults) {
    warnings.clear();
    std::unique_ptr<Database> database = open(failing(call, error)).value();
    expect_environment_error(database->store_kernel(artifact), errno_text(error));
    expect_environment_error(database->publish(record), errno_text(error));
    EXPECT_EQ(warnings.size(), 1u) << call << error;
    EXPECT_FALSE(database->find(record.id)->has_value());
    EXPECT_FALSE(database->find_kernel(artifact.key)->has_value());
    EXPECT_EQ(database->look_up(record.spec, 3, record.device)->served, Served::exact);
    EXPECT_EQ(std::distance(fs::directory_iterator(root / "records"), fs::directory_iterator()), 1) << call << error;
    EXPECT_TRUE(fs::is_empty(root / "kernels")) << call << error;
  }
}

TEST_F(DatabasePlaceTest, ReadOnlyPlaceIsUsedReadOnlyWithOneWarning) {
  fs::create_directory(root);
  std::unique_ptr<Database> database = open(failing("make_directory", EROFS)).value();
  EXPECT_EQ(database->look_up(record.spec, 3, record.device)->served, Served::fallback);
  EXPECT_TRUE(database->list()->empty());
  EXPECT_FALSE(database->find(record.id)->has_value());
  EXPECT_FALSE(database->find_kernel(artifact.key)->has_value());
  expect_environment_error(database->publish(record), "read only");
  expect_environment_error(database->store_kernel(artifact), "read only");
  EXPECT_TRUE(database->check()->empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(errno_text(EROFS)), std::string::npos);
}

TEST_F(DatabasePlaceTest, PlacesThatCannotBeADatabase) {
  expect_environment_error(open(failing("make_directory", EACCES)), errno_text(EACCES));
  DatabaseOptions read_only;
  read_only.read_only = true;
  expect_environment_error(Database::open(root, read_only), "no database");
  EXPECT_FALSE(fs::exists(root));
  test::write_file(root, "a file");
  expect_environment_error(Database::open(root), errno_text(ENOTDIR));
  expect_environment_error(Database::open(root / "below"), errno_text(ENOTDIR));
  EXPECT_FALSE(Database::open("").ok());
}

TEST_F(DatabasePlaceTest, ReadOnlyWritesNothing) {
  ASSERT_TRUE(Database::open(root).value()->publish(record).ok());
  fs::remove(root / "index.json");
  DatabaseOptions read_only;
  read_only.read_only = true;
  const auto no_call = [](const std::string& call) {
    ADD_FAILURE() << call;
    return -EROFS;
  };
  std::unique_ptr<Database> database = DirectoryDatabase::open(root, read_only, std::make_unique<FaultyFileOps>(no_call)).value();
  EXPECT_EQ(database->look_up(record.spec, record.rows, record.device)->served, Served::exact);
  EXPECT_EQ(database->list()->size(), 1u);
  EXPECT_TRUE(database->check()->empty());
  expect_environment_error(database->publish(record), "read only");
  EXPECT_FALSE(fs::exists(root / "index.json"));
}

TEST(DefaultDatabaseDirectory, FollowsTheXdgRules) {
  EXPECT_EQ(default_database_directory("/cache", "/of/me").value(), "/cache/headnorm");
  EXPECT_EQ(default_database_directory(nullptr, "/of/me").value(), "/of/me/.cache/headnorm");
  EXPECT_EQ(default_database_directory("", "/of/me").value(), "/of/me/.cache/headnorm");
  EXPECT_EQ(default_database_directory("relative", "/of/me").value(), "/of/me/.cache/headnorm");
  for (const char* home : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Result<fs::path> found = default_database_directory(nullptr, home);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().kind, ErrorKind::environment);
    EXPECT_NE(found.error().remedy.find("HEADNORM_DB"), std::string::npos);
  }
}

TEST_F(DatabasePlaceTest, OddPathsAreOrdinary) {
  const fs::path working = fs::current_path();
  fs::current_path(directory.path());
  for (const std::string name : {"with blanks ", "qu'o\"te", "$(touch ran)", "`touch ran`", "; touch ran", "Größe-ключ-データ",
                                 "a\nb", "%s%n", "-rf", "*", "\xff\xfe"}) {
    std::unique_ptr<Database> database = Database::open(name).value();
    EXPECT_EQ(database->directory(), directory.path() / name);
    ASSERT_TRUE(database->publish(record).ok()) << name;
    const StoredKernel stored = database->store_kernel(artifact).value();
    database = Database::open(directory.path() / name).value();
    EXPECT_EQ(database->look_up(record.spec, record.rows, record.device)->served, Served::exact) << name;
    EXPECT_TRUE(database->load_kernel(stored)->has_value()) << name;
    EXPECT_TRUE(database->check()->empty()) << name;
  }
  EXPECT_FALSE(fs::exists("ran"));
  fs::current_path(working);
}

std::map<std::string, std::string> files_under(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), root).string()] = test::read_file(entry.path());
  }
  return files;
}

// 1.234.567,5 instead of 1234567.5, whichever locales the machine has.
struct CommaNumbers : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST_F(DatabasePlaceTest, AnotherProcessLocaleAndTimeZoneWriteTheSameBytes) {
  const auto fill = [&](const fs::path& where) {
    const Result<std::unique_ptr<Database>> database = Database::open(where);
    return database.ok() && (*database)->store_kernel(artifact).ok() && (*database)->publish(record).ok();
  };
  ASSERT_TRUE(fill(directory.path() / "here"));
  ASSERT_TRUE(test::succeeded(test::wait_for(test::start_process([&] {
    ::setenv("TZ", "Pacific/Kiritimati", 1);
    ::tzset();
    for (const char* name : {"de_DE.UTF-8", "tr_TR.UTF-8", "fr_FR.UTF-8"}) std::setlocale(LC_ALL, name);
    std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
    return fill(directory.path() / "there");
  }))));
  const std::map<std::string, std::string> here = files_under(directory.path() / "here");
  EXPECT_EQ(here.size(), 4u);
  EXPECT_EQ(files_under(directory.path() / "there"), here);
}

TEST_F(DatabasePlaceTest, WhateverChangesTheBytesChangesTheKey) {
  const std::string backend = "llvm-22.1.8/program-1/lowering-1/flags-none";
  const DeviceInfo device = test::sample_device();
  KernelSpec eps = record.spec, offset = eps, dtype = eps;
  eps.eps = 1e-5;
  offset.weight_offset = 1;
  dtype.y_dtype = Dtype::f32;
  std::vector<std::pair<Plan, std::string>> builds;
  for (const KernelSpec& spec : {record.spec, test::sample_spec(4096, 128), test::sample_spec(2048), eps, offset, dtype})
    builds.emplace_back(test::sample_plan(spec, device), backend);
  HostSchedule schedule;
  schedule.accumulators = 2;
  builds.emplace_back(make_plan(record.spec, schedule, device.target).value(), backend);
  for (const char* target : {"x86-64", "x86-64-v3", "x86-64-v4+bf16", "aarch64", "sm_80", "sm_90", "sm_90+ptx86"}) {
    DeviceInfo other = device;
    other.target = parse_target(target).value();
    builds.emplace_back(test::sample_plan(record.spec, other), backend);
  }
  for (const char* other : {"llvm-22.1.9/program-1/lowering-1/flags-none", "llvm-22.1.8/program-2/lowering-1/flags-none",
                            "llvm-22.1.8/program-1/lowering-2/flags-none", "llvm-22.1.8/program-1/lowering-1/flags-ftz",
                            "nvrtc-13.0/program-1/lowering-1/flags-none"})
    builds.emplace_back(builds[0].first, other);

  std::unique_ptr<Database> database = Database::open(root).value();
  std::set<std::string> keys;
  for (const auto& [plan, identity] : builds) {
    const Artifact built = test::sample_artifact(plan, identity, identity);
    EXPECT_FALSE(database->find_kernel(built.key)->has_value()) << to_text(plan.target) << identity;
    EXPECT_TRUE(keys.insert(built.key).second);
    ASSERT_TRUE(database->store_kernel(built).ok());
  }
  for (const auto& file : fs::directory_iterator(root / "kernels")) fs::last_write_time(file, fs::file_time_type::clock::now());
  for (const auto& [plan, identity] : builds) {
    const Artifact built = test::sample_artifact(plan, identity, identity);
    EXPECT_EQ(database->find_kernel(artifact_key(plan, identity))->value().bytes, built.bytes);
  }
}

}  // namespace
}  // namespace headnorm
