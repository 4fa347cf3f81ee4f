#include "tuner/journal.h"

#include <gtest/gtest.h>

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
