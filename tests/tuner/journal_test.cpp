#include "tuner/journal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/fakes.h"
#include "tuner/tune_lock.h"

namespace headnorm {
namespace {

class JournalTest : public testing::Test {
 protected:
  Journal open(const std::string& identity = "backend-1") {
    return Journal::open(database_.directory(), "0123", identity, &warning_);
  }
  std::filesystem::path path() const { return database_.directory() / "journal" / "0123.jsonl"; }

  test::FakeDatabase database_;
  std::string warning_;
};

TEST_F(JournalTest, RemembersFinishedCandidatesAndForgetsSurvivors) {
  {
    Journal journal = open();
    journal.begin("a");
    journal.survive("a");
    journal.finish("a", {0.75, std::nullopt});
    journal.begin("b");
    journal.survive("b");
    journal.finish("b", {0, Rejection{"incorrect", "y row 3 \xff"}});
    journal.begin("c");
    journal.survive("c");
    journal.begin("d");
  }
  const Journal journal = open();
  EXPECT_EQ(warning_, "");
  EXPECT_EQ(journal.entries().size(), 3u);
  EXPECT_EQ(journal.entries().at("a").score, 0.75);
  EXPECT_FALSE(journal.entries().at("a").rejection);
  EXPECT_EQ(journal.entries().at("b").rejection->kind, "incorrect");
  EXPECT_EQ(journal.entries().at("d").rejection->kind, "crash");
}

TEST_F(JournalTest, BeginsAnewForAnotherIdentity) {
  open("backend-1").finish("a", {1, std::nullopt});
  EXPECT_TRUE(open("backend-2").entries().empty());
  EXPECT_TRUE(open("backend-1").entries().empty());
}

TEST_F(JournalTest, PassesOverTornAndDamagedLines) {
  open().finish("a", {1, std::nullopt});
  {
    std::ofstream file(path(), std::ios::app);
    file << "[1]\n{\"schedule\": 7}\n{\"schedule\":\"x\",\"state\":\"measured\",\"score\":\"fast\"}\n{\"schedule\":\"b\",\"sta";
  }
  open().finish("c", {2, std::nullopt});
  const Journal journal = open();
  EXPECT_EQ(journal.entries().size(), 2u);
  EXPECT_EQ(journal.entries().at("c").score, 2);
}

TEST_F(JournalTest, IsAbsentAfterRemove) {
  Journal journal = open();
  EXPECT_TRUE(std::filesystem::exists(path()));
  journal.remove();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(JournalTest, WarnsWhereItCannotBeWritten) {
  std::ofstream(database_.directory() / "journal") << "a file where the folder should be";
  Journal journal = open();
  EXPECT_NE(warning_.find("cannot be written"), std::string::npos);
  journal.finish("a", {1, std::nullopt});
  EXPECT_TRUE(journal.entries().empty());
}

// Whatever lies at the journal's place: opening it neither waits nor touches what a link leads to.
TEST_F(JournalTest, GoesOnWithoutAFileThatIsNotRegular) {
  const std::filesystem::path target = database_.directory() / "precious";
  std::ofstream(target) << "kept";
  std::filesystem::create_directory(path().parent_path());
  const auto goes_on_without = [&](const std::string& reason) {
    warning_.clear();
    Journal journal = open();
    EXPECT_NE(warning_.find("cannot be written"), std::string::npos) << warning_;
    EXPECT_NE(warning_.find(reason), std::string::npos) << warning_;
    journal.finish("a", {1, std::nullopt});
    journal.remove();
    EXPECT_EQ(std::filesystem::file_size(target), 4u);
  };
  std::filesystem::create_symlink(target, path());
  goes_on_without("is a symbolic link");
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
  std::filesystem::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  goes_on_without("is not a regular file");
}

TEST_F(JournalTest, FolderIsPrivateAndNotBehindALink) {
  open();
  EXPECT_EQ(std::filesystem::status(path().parent_path()).permissions(), std::filesystem::perms::owner_all);
  EXPECT_EQ(std::filesystem::status(path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove_all(path().parent_path());
  std::filesystem::create_directory(database_.directory() / "elsewhere");
  std::filesystem::create_directory_symlink(database_.directory() / "elsewhere", path().parent_path());
  open();
  EXPECT_NE(warning_.find("cannot be written"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(database_.directory() / "elsewhere"));
}

TEST(TuneLock, RefusesAFileThatIsNotRegular) {
  test::FakeDatabase database;
  const std::filesystem::path path = database.directory() / "tune.lock", target = database.directory() / "precious";
  std::ofstream(target) << "kept";
  const auto refuses = [&](const std::string& reason) {
    const Result<TuneLock> lock = TuneLock::acquire(database.directory(), [](int) { return true; });
    ASSERT_FALSE(lock.ok());
    EXPECT_EQ(lock.error().kind, ErrorKind::environment);
    EXPECT_NE(lock.error().message.find(path.string()), std::string::npos);
    EXPECT_NE(lock.error().message.find(reason), std::string::npos) << lock.error().message;
    EXPECT_NE(lock.error().remedy.find("delete"), std::string::npos);
  };
  std::filesystem::create_symlink(target, path);
  refuses("is a symbolic link");
  EXPECT_EQ(std::filesystem::file_size(target), 4u);
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  refuses("is not a regular file");
}

TEST(TuneLock, OneHolderAtATimeAndTheOtherLearnsItsPid) {
  test::FakeDatabase database;
  int waits = 0, pid = 0;
  const auto give_up = [&](int holder) {
    pid = holder;
    return ++waits < 2;
  };
  {
    Result<TuneLock> first = TuneLock::acquire(database.directory(), give_up);
    EXPECT_TRUE(first->held());
    EXPECT_EQ(waits, 0);
    EXPECT_FALSE(TuneLock::acquire(database.directory(), give_up)->held());
    EXPECT_EQ(waits, 2);
    EXPECT_EQ(pid, getpid());
  }
  EXPECT_TRUE(TuneLock::acquire(database.directory(), give_up)->held());
  EXPECT_EQ(waits, 2);
}

TEST(TuneLock, SaysWhatIsWrongWithTheDirectory) {
  const Result<TuneLock> lock = TuneLock::acquire("/nonexistent/database", [](int) { return true; });
  ASSERT_FALSE(lock.ok());
  EXPECT_EQ(lock.error().kind, ErrorKind::environment);
  EXPECT_NE(lock.error().message.find("/nonexistent/database/tune.lock"), std::string::npos);
}

}  // namespace
}  // namespace headnorm
