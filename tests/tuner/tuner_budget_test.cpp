// A search whose time ends: what it still does, counts and says.
#include "tests/tuner/tuner_fixture.h"

namespace headnorm::test {
namespace {

TEST_F(TunerTest, BudgetIsObeyed) {
  device_.time_us = [](const Plan& plan) { return 1e4 * time_by_schedule(plan); };  // about 0.1 s a launch, 2 s a trial
  request_.rows = {24, 48};
  request_.budget_s = 200;
  const Result<TuneReport> report = tune(request_, services());
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->results.size(), 2u);
  EXPECT_GT(clock_.now_s, 150);
  // The trial and the building under way, and what the last winner lacks of its fewest samples.
  EXPECT_LT(clock_.now_s, 205 + 2 * kFewestSamples);
}

TEST_F(TunerTest, WarnsIfTheBudgetEndedBeforeHalfWasMeasured) {
  const int legal = tune_one().candidates.legal;
  EXPECT_TRUE(warnings_.empty());
  request_.retune = Retune::always;
  request_.budget_s = 1e-9;
  const Record record = tune_one();
  ASSERT_LT(2 * record.candidates.measured, record.candidates.legal);
  ASSERT_EQ(warnings_.size(), 1u);
  const std::string numbers = std::to_string(record.candidates.measured) + " of " + std::to_string(record.candidates.legal);
  EXPECT_NE(warnings_[0].find(numbers), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find("--retune"), std::string::npos) << warnings_[0];
  EXPECT_LE(record.candidates.legal, legal);
}

// Of short launches, the finals take far less than the most that is kept for them: the screening has the rest.
TEST_F(TunerTest, TheBudgetIsUsedUpWhileCandidatesAreLeft) {
  device_.time_us = [](const Plan& plan) { return time_by_schedule(plan) / 10; };
  request_.budget_s = 0.1;
  const Record record = tune_one();
  ASSERT_LT(record.candidates.measured, record.candidates.legal);
  EXPECT_EQ(record.candidates.verified, record.candidates.measured) << "built, and no time left to measure it";
  EXPECT_EQ(record.time.samples, 25) << "the finals were cut short";
  EXPECT_GT(clock_.now_s, 0.095);
  EXPECT_LT(clock_.now_s, 0.102);  // the candidate under way
}

TEST_F(TunerTest, WarningSaysWhatTheOperandsTookOfTheBudget) {
  TuneServices slow = services();
  slow.make_copy = [this](std::int64_t) {
    clock_.now_s += 4.25;
    return Result<std::unique_ptr<CopyReference>>(std::make_unique<FakeCopy>());
  };
  request_.budget_s = 2;
  ASSERT_TRUE(tune(request_, slow).ok());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("budget of 2 s"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find("1 of "), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find("ready after 4.25 s"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find("kept for the finals"), std::string::npos) << warnings_[0];
}

// Wherever the budget ends: in the screening of the space, of the refinements, or after all of it.
TEST_F(TunerTest, CountsAreConsistentForEveryBudget) {
  request_.retune = Retune::always;
  for (SearchKind search : {SearchKind::exhaustive, SearchKind::random}) {
    request_.search = search;
    int least = 0;
    for (double budget_s : {0.01, 0.1, 0.2, 0.25, 60.0}) {
      SCOPED_TRACE(testing::Message() << to_text(search) << ", " << budget_s << " s");
      request_.budget_s = budget_s;
      const CandidateCounts counts = tune_one().candidates;
      EXPECT_LE(counts.measured, counts.verified);
      EXPECT_LE(counts.verified, counts.legal);
      EXPECT_GE(counts.measured, least);
      least = counts.measured;
      if (budget_s == 60) {
        EXPECT_EQ(counts.measured, counts.legal);
      }
    }
  }
}

// Few were measured because most were wrong: more time would not help.
TEST_F(TunerTest, DoesNotBlameTheBudgetForRejections) {
  const std::string right = to_text(default_schedule(request_.spec, device_.info().target));
  device_.fault = [&](const Plan& plan, int) { return text_of(plan) == right ? Fault::none : Fault::writes_zeros; };
  const Record record = tune_one();
  EXPECT_LT(2 * record.candidates.measured, record.candidates.legal);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TunerTest, SmallestBudgetStillGivesARecordForEachRowCount) {
  request_.rows = {24, 48, 7};
  request_.budget_s = 1e-9;
  const Result<TuneReport> report = tune(request_, services());
  ASSERT_EQ(report->results.size(), 3u);
  EXPECT_FALSE(report->interrupted);
  for (const TunedRow& row : report->results) EXPECT_EQ(row.record.time.samples, kFewestSamples);
}

TEST_F(TunerTest, StopsAtOnceWhileTheWinnerHasItsFewestSamplesTaken) {
  request_.budget_s = 1e-9;
  request_.retune = Retune::always;
  tune_one();
  const int polls = polls_;
  std::set<std::size_t> measured;
  for (int stop = polls - 1; stop >= polls - 8; --stop) {
    database_.records.clear();
    std::filesystem::remove_all(database_.directory() / "journal");  // else the next one would go on from there
    device_.measured.clear();
    polls_ = 0;
    stop_after_ = stop;
    const Result<TuneReport> report = tune(request_, services());
    ASSERT_TRUE(report.ok());
    EXPECT_TRUE(report->interrupted);
    EXPECT_TRUE(database_.records.empty());
    measured.insert(device_.measured.size());
  }
  EXPECT_GE(measured.size(), 3u) << "a stop takes effect only after all samples";
}

// A race that shows after the budget's end: another wins, with its fewest samples, too.
TEST_F(TunerTest, ACandidateThatIsFoundWrongInItsLastSampleDoesNotWin) {
  device_.time_us = [](const Plan& plan) { return 1e4 * time_by_schedule(plan); };
  request_.budget_s = 60;
  const Record right = tune_one();
  ASSERT_EQ(right.time.samples, kFewestSamples);
  ASSERT_GT(right.candidates.measured, 1);
  const std::string racy = to_text(right.schedule);
  const int all_launches = device_.launches.at(racy);
  device_.launches.clear();
  device_.fault = [&](const Plan& plan, int launches) {
    return text_of(plan) == racy && launches >= all_launches - 1 ? Fault::writes_zeros : Fault::none;
  };
  request_.retune = Retune::always;
  const Record record = tune_one();
  EXPECT_NE(to_text(record.schedule), racy);
  EXPECT_EQ(record.time.samples, kFewestSamples);
  EXPECT_EQ(record.candidates.rejected.at("incorrect"), 1);
  EXPECT_EQ(record.candidates.measured, right.candidates.measured - 1);
}

}  // namespace
}  // namespace headnorm::test
