// A search: what it finds, whatever goes wrong on the way.
#include <fstream>

#include "tests/tuner/tuner_fixture.h"
#include "tuner/tune_lock.h"

namespace headnorm::test {
namespace {

TEST_F(TunerTest, PublishesTheFastestPlan) {
  const Record record = tune_one();
  EXPECT_EQ(to_text(record.schedule), fastest());
  EXPECT_EQ(record.schedule, database_.records.at(record.id).schedule);
  EXPECT_EQ(record.evidence, Evidence::measured);
  const Result<Plan> plan = make_plan(record.spec, record.schedule, device_.info().target);
  EXPECT_DOUBLE_EQ(record.time.median_us, time_by_schedule(*plan));
  EXPECT_DOUBLE_EQ(record.copy_ratio, 5.0 / time_by_schedule(*plan));
  EXPECT_EQ(record.time.samples, 25);
  EXPECT_EQ(record.bytes, minimum_traffic(record.spec).total_bytes(24));
  EXPECT_EQ(record.kernel.key, artifact_key(*plan, backend_.identity()));
  EXPECT_EQ(record.candidates.legal, record.candidates.measured);
  EXPECT_EQ(record.candidates.verified, record.candidates.measured);
  const Result<Record> read = record_from_json(to_json(record));
  EXPECT_TRUE(read.ok()) << read.error().message;
}

TEST_F(TunerTest, TrialsHaveEveryCandidateOnTheWinnersScale) {
  device_.fault = [](const Plan& plan, int) {
    return plan.host_schedule().form == HostForm::pipe ? Fault::wrong_tail : Fault::none;
  };
  backend_.fault = [](const Plan& plan) { return plan.host_schedule().form == HostForm::rot ? Fault::compile : Fault::none; };
  const Record record = tune_one();
  const TrialLog& log = database_.trials.at(record.id);
  EXPECT_TRUE(log.belongs_to(record));
  EXPECT_TRUE(trial_log_from_json(to_json(log)).ok());
  EXPECT_EQ(static_cast<int>(log.trials.size()), record.candidates.legal);
  std::map<std::string, int> failures;
  for (const Trial& trial : log.trials) {
    if (!trial.failure.empty()) {
      ++failures[trial.failure];
      continue;
    }
    const Plan plan = *make_plan(request_.spec, *parse_schedule(trial.schedule), device_.info().target);
    EXPECT_DOUBLE_EQ(trial.time_us, time_by_schedule(plan)) << trial.schedule;
    EXPECT_GE(trial.time_us, record.time.median_us);
    EXPECT_GE(trial.samples_us.size(), 3u);
    EXPECT_GT(trial.compile_ms, 0);
  }
  EXPECT_GT(failures["compile"], 0);
  EXPECT_GT(failures["incorrect"], 0);
  EXPECT_EQ(failures["compile"], record.candidates.rejected.at("compile"));
  EXPECT_EQ(failures["incorrect"], record.candidates.rejected.at("incorrect"));
}

// Times that grow between the screening and the finals move no candidate ahead of the winner.
TEST_F(TunerTest, WinnerIsTheLeastTrialOnAMachineThatSlowsDown) {
  services_without_copy_ = true;
  device_.time_us = [this](const Plan& plan) { return time_by_schedule(plan) * (1 + clock_.now_s); };
  const Record record = tune_one();
  for (const Trial& trial : database_.trials.at(record.id).trials) {
    EXPECT_GE(trial.time_us, record.time.median_us * (1 - 1e-12)) << trial.schedule;
    if (trial.schedule != to_text(record.schedule)) continue;
    EXPECT_DOUBLE_EQ(trial.time_us, record.time.median_us);
  }
}

TEST_F(TunerTest, MeasuresNoPlanTwice) {
  const Record record = tune_one();
  std::vector<std::string> measured = backend_.compiled;
  // After the search, the winner's unaligned twin is compiled to be stored.
  const Plan winner = *make_plan(record.spec, record.schedule, device_.info().target);
  if (unaligned_schedule(winner) != winner.schedule) {
    EXPECT_EQ(measured.back(), to_text(unaligned_schedule(winner)));
    measured.pop_back();
  }
  EXPECT_EQ(std::set<std::string>(measured.begin(), measured.end()).size(), measured.size());
}

TEST_F(TunerTest, OrderFollowsFromTheSeed) {
  std::vector<std::vector<std::string>> compiled;
  for (std::uint64_t seed : {1, 1, 2}) {
    request_.search = SearchKind::random;
    request_.seed = seed;
    request_.retune = Retune::always;
    backend_.compiled.clear();
    tune_one();
    compiled.push_back(backend_.compiled);
  }
  EXPECT_EQ(compiled[0], compiled[1]);
  EXPECT_NE(compiled[0], compiled[2]);
}

// A failing candidate never ends the search.
TEST_F(TunerTest, CountsFailuresByKindAndStillFindsTheFastest) {
  const auto fault_of = [](const Plan& plan) {
    const std::size_t hash = std::hash<std::string>()(text_of(plan)) % 16;
    constexpr Fault kFaults[] = {Fault::compile, Fault::load, Fault::launch, Fault::writes_zeros, Fault::overruns};
    return hash < std::size(kFaults) && plan.host_schedule().block_bytes != 2048 ? kFaults[hash] : Fault::none;
  };
  backend_.fault = fault_of;
  device_.fault = [&](const Plan& plan, int) { return fault_of(plan); };
  const Record record = tune_one();
  EXPECT_EQ(to_text(record.schedule), fastest());
  for (const char* kind : {"compile", "load", "launch", "incorrect", "out_of_bounds"})
    EXPECT_GT(record.candidates.rejected.count(kind), 0u) << kind;
  int rejected = 0;
  for (const auto& [kind, count] : record.candidates.rejected) rejected += kind == "illegal" ? 0 : count;
  EXPECT_EQ(record.candidates.measured + rejected, record.candidates.legal);
  EXPECT_EQ(record.candidates.verified, record.candidates.measured);
}

// An out-of-bounds write in the third candidate: all the others are measured.
TEST_F(TunerTest, OutOfBoundsWriteDoesNotSpoilTheOthers) {
  device_.fault = [this](const Plan& plan, int) {
    return backend_.compiled.size() > 2 && text_of(plan) == backend_.compiled[2] ? Fault::overruns : Fault::none;
  };
  const Record record = tune_one();
  EXPECT_EQ(record.candidates.rejected.at("out_of_bounds"), 1);
  EXPECT_EQ(record.candidates.measured, record.candidates.legal - 1);
  EXPECT_EQ(record.candidates.rejected.count("incorrect"), 0u);
}

class FastButWrong : public TunerTest, public testing::WithParamInterface<std::tuple<Fault, int>> {};

// Wrong at once, wrong in the launch that is timed only, and wrong from some repeat on.
TEST_P(FastButWrong, NeverWins) {
  const auto [fault, after] = GetParam();
  const auto cheats = [](const Plan& plan) { return plan.host_schedule().form == HostForm::rot; };
  device_.fault = [&, fault = fault, after = after](const Plan& plan, int launches) {
    return cheats(plan) && launches >= after ? fault : Fault::none;
  };
  device_.time_us = [&](const Plan& plan) { return cheats(plan) ? 0.001 : time_by_schedule(plan); };
  const Record record = tune_one();
  EXPECT_FALSE(cheats(*make_plan(record.spec, record.schedule, device_.info().target)));
  EXPECT_GE(record.candidates.rejected.at(fault == Fault::overruns ? "out_of_bounds" : "incorrect"), 1);
}

INSTANTIATE_TEST_SUITE_P(Faults, FastButWrong,
                         testing::Combine(testing::Values(Fault::writes_zeros, Fault::writes_nothing, Fault::wrong_tail,
                                                          Fault::overruns),
                                          testing::Values(0, 1, 40)));

// In place a launch uses its inputs up: without their restoring every launch but the first would be incorrect.
TEST_F(TunerTest, InplaceOperandsAreRestoredForEveryTrial) {
  request_.spec = *parse_spec(kInplace);
  for (CachePolicy policy : {CachePolicy::cold, CachePolicy::warm}) {
    request_.policy = policy;
    const Record record = tune_one();
    EXPECT_EQ(record.candidates.rejected.count("incorrect"), 0u);
    EXPECT_EQ(record.candidates.measured, record.candidates.legal);
  }
}

TEST_F(TunerTest, ColdAndWarmAreSeparateRecords) {
  const Record cold = tune_one();
  const std::size_t cold_sets = [&] {
    std::set<void*> sets;
    for (const auto& [text, x] : device_.measured) sets.insert(x);
    return sets.size();
  }();
  EXPECT_GT(static_cast<std::int64_t>(cold_sets) * cold.bytes, 2 * device_.info().cache_bytes);

  device_.measured.clear();
  request_.policy = CachePolicy::warm;
  const Record warm = tune_one();
  EXPECT_NE(cold.id, warm.id);
  EXPECT_EQ(database_.records.size(), 2u);
  for (const auto& [text, x] : device_.measured) EXPECT_EQ(x, device_.measured[0].second);
}

TEST_F(TunerTest, SecondTunerWaitsAndSaysForWhom) {
  const Result<TuneLock> other = TuneLock::acquire(database_.directory(), [](int) { return false; });
  stop_after_ = 3;
  const Result<TuneReport> report = tune(request_, services());
  EXPECT_TRUE(report->interrupted);
  EXPECT_TRUE(backend_.compiled.empty());
  ASSERT_FALSE(progress_.empty());
  EXPECT_EQ(progress_[0].phase, TunePhase::waiting);
  EXPECT_EQ(progress_[0].holder_pid, getpid());
  EXPECT_EQ(progress_.size(), 3u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find(std::to_string(getpid())), std::string::npos) << warnings_[0];
}

TEST_F(TunerTest, ContinuesAfterAStopAtAnyPoint) {
  const Record whole = tune_one();
  const auto total = static_cast<int>(backend_.compiled.size());
  const int polls = polls_;
  ASSERT_GT(polls, 100);
  for (int stop = 0; stop < polls; stop += 1 + polls / 12) {
    SCOPED_TRACE(testing::Message() << "stopped at poll " << stop << " of " << polls);
    database_.records.clear();
    backend_.compiled.clear();
    polls_ = 0;
    stop_after_ = stop;
    const Result<TuneReport> stopped = tune(request_, services());
    ASSERT_TRUE(stopped.ok());
    ASSERT_TRUE(stopped->interrupted);
    EXPECT_TRUE(database_.records.empty());
    stop_after_ = -1;
    const Record record = tune_one();
    EXPECT_EQ(record.schedule, whole.schedule);
    EXPECT_EQ(record.candidates.measured, whole.candidates.measured);
    EXPECT_EQ(static_cast<int>(database_.trials.at(record.id).trials.size()), whole.candidates.legal);
    // Again are only the batch that was under way and the finalists.
    EXPECT_LE(static_cast<int>(backend_.compiled.size()), total + 16 + 12);
    EXPECT_TRUE(std::filesystem::is_empty(database_.directory() / "journal"));
  }
}

// Filling the operands of a large launch takes long: the rest of the sets is left out.
TEST_F(TunerTest, StopsBetweenOperandSets) {
  TuneServices stopping = services();
  bool preparing = false;
  int polls_while_preparing = 0;
  stopping.progress = [&](const TuneProgress& progress) { preparing = progress.phase == TunePhase::preparing; };
  const auto prepare = [&](int stop_after) {
    polls_while_preparing = 0;
    preparing = false;
    request_.retune = Retune::always;
    stopping.stop_requested = [&, stop_after] { return preparing && ++polls_while_preparing > stop_after; };
    device_.copied_in_bytes = 0;
    const Result<TuneReport> report = tune(request_, stopping);
    EXPECT_TRUE(report.ok());
    EXPECT_TRUE(report->interrupted);
    EXPECT_TRUE(backend_.compiled.empty());
    return device_.copied_in_bytes;
  };
  std::set<std::int64_t> amounts;
  for (int stop = 0; stop < 20; ++stop) amounts.insert(prepare(stop));
  EXPECT_EQ(*amounts.begin(), 0);
  EXPECT_GE(amounts.size(), 6u);  // more than nothing, one workload, both
}

TEST_F(TunerTest, CandidateThatTookTheProcessWithItIsNotRunAgain) {
  const std::string first = to_text(default_schedule(request_.spec, device_.info().target));
  const std::string id = record_id(request_.spec, 24, device_.info(), CachePolicy::cold);
  std::filesystem::create_directory(database_.directory() / "journal");
  std::ofstream(database_.directory() / "journal" / (id + ".jsonl"))
      << "{\"identity\":\"fake-1;search=exhaustive;seed=1\"}\n{\"schedule\":\"" << first << "\",\"state\":\"begun\"}\n";
  const Record record = tune_one();
  EXPECT_EQ(record.candidates.rejected.at("crash"), 1);
  EXPECT_EQ(device_.launches.count(first), 0u);
}

TEST_F(TunerTest, ReturnsAStoredRecordUnlessAskedAgain) {
  tune_one();
  backend_.compiled.clear();
  const Result<TuneReport> again = tune(request_, services());
  EXPECT_EQ(again->results.at(0).origin, TunedRow::Origin::stored);
  EXPECT_TRUE(backend_.compiled.empty());
  request_.retune = Retune::always;
  EXPECT_EQ(tune(request_, services())->results.at(0).origin, TunedRow::Origin::tuned);
  EXPECT_FALSE(backend_.compiled.empty());
}

// A race that shows in the finals only: the candidate is not one that was measured and found right.
TEST_F(TunerTest, CountsOnceWhatTurnsOutWrongInTheFinals) {
  const Record right = tune_one();
  const int launches_in_screening = 1 + 16 + 3 * 16;
  const std::string racy = to_text(right.schedule);
  device_.launches.clear();
  device_.fault = [&](const Plan& plan, int launches) {
    return text_of(plan) == racy && launches > launches_in_screening ? Fault::writes_zeros : Fault::none;
  };
  request_.retune = Retune::always;
  const Record record = tune_one();
  EXPECT_NE(to_text(record.schedule), racy);
  EXPECT_EQ(record.candidates.rejected.at("incorrect"), 1);
  EXPECT_EQ(record.candidates.measured, record.candidates.legal - 1);
  EXPECT_EQ(record.candidates.verified, record.candidates.measured);
}

TEST_F(TunerTest, ProgressCountsUpAndNamesTheBest) {
  const Record record = tune_one();
  int done = 0;
  for (const TuneProgress& progress : progress_) {
    if (progress.phase != TunePhase::screening) continue;
    EXPECT_GE(progress.done, done);
    EXPECT_LE(progress.done, progress.total);
    done = progress.done;
  }
  EXPECT_EQ(done, record.candidates.legal);
  EXPECT_EQ(progress_.back().phase, TunePhase::finals);
  EXPECT_EQ(progress_.back().best_schedule, to_text(record.schedule));
  EXPECT_DOUBLE_EQ(progress_.back().best_us, record.time.median_us);
}

TEST_F(TunerTest, SaysWhyIfNoCandidateIsRight) {
  device_.fault = [](const Plan&, int) { return Fault::writes_zeros; };
  const Result<TuneReport> report = tune(request_, services());
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("incorrect: y row 0"), std::string::npos) << report.error().message;
  EXPECT_TRUE(database_.records.empty());
}

TEST_F(TunerTest, RefusesRequestsThatCannotBe) {
  request_.rows = {};
  EXPECT_EQ(tune(request_, services()).error().kind, ErrorKind::user);
  request_.rows = {0};
  EXPECT_EQ(tune(request_, services()).error().kind, ErrorKind::user);
  request_.rows = {std::int64_t{1} << 40};
  const Result<TuneReport> too_large = tune(request_, services());
  EXPECT_EQ(too_large.error().kind, ErrorKind::environment);
  EXPECT_NE(too_large.error().message.find("1099511627776 rows"), std::string::npos);
  request_.rows = {24};
  request_.budget_s = 0;
  EXPECT_EQ(tune(request_, services()).error().kind, ErrorKind::user);
}

}  // namespace
}  // namespace headnorm::test
