// Merging: the same database whatever the order, whole after any interruption, and exact for no device but a record's own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>
#include <map>
#include <random>

#include "generator/export/format.h"
#include "generator/export/import.h"
#include "runtime/database/directory_database.h"
#include "tests/exports/samples.h"
#include "tests/support/database_samples.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

using test::entries_of;
using test::FaultyFileOps;
using test::gpu_device;
using test::host_device;
using test::sample_rows;
using test::searched_row;
using test::spec_of;
using test::TemporaryDirectory;

using Files = std::map<std::string, std::string>;

Files files_in(const std::filesystem::path& directory) {
  Files files;
  for (const char* part : {"records", "trials"}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory / part)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(".tmp-")) files[std::string(part) + "/" + name] = test::read_file(entry.path());  // of a dead writer
    }
  }
  return files;
}

// A log whose record was replaced by one without trials says nothing any more: it is as if it were not there.
void forget_orphans(const std::filesystem::path& directory, Database& database) {
  const std::vector<Record> records = *database.list();
  for (const Record& record : records) {
    if (!(*database.find_trials(record)).has_value()) std::filesystem::remove(directory / "trials" / (record.id + ".json"));
  }
}

// What merges in this order leave.
Files merged(const std::vector<std::vector<MergeEntry>>& parts) {
  const TemporaryDirectory folder;
  const auto database = *Database::open(folder.path() / "db");
  for (const std::vector<MergeEntry>& part : parts) {
    const Result<MergeCounts> counts = database->merge(part);
    EXPECT_TRUE(counts.ok()) << counts.error().message;
  }
  forget_orphans(folder.path() / "db", *database);
  return files_in(folder.path() / "db");
}

// Random records over few keys, so that many meet: all evidences, times and days.
std::vector<MergeEntry> random_entries(std::mt19937& random) {
  const auto any = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  std::vector<MergeEntry> entries;
  for (int i = 0; i < 6; ++i) {
    exports::Row row = searched_row(spec_of(any(2) == 0 ? test::kPlainSpec : test::kResidualSpec), 1 << any(2),
                                    any(2) == 0 ? gpu_device() : gpu_device("NVIDIA H200", 66), 10.0 + any(3),
                                    static_cast<Evidence>(any(3)), static_cast<CachePolicy>(any(2)));
    row.record.created = "2026-01-0" + std::to_string(1 + any(2)) + "T00:00:00Z";
    row.trials->record_digest = record_digest(row.record);
    if (any(3) == 0) row.trials.reset();
    entries.push_back({row.record, row.trials});
  }
  return entries;
}

TEST(Merge, IsCommutativeAssociativeAndIdempotent) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    std::mt19937 random(seed);
    const auto a = random_entries(random), b = random_entries(random), c = random_entries(random);
    const Files all = merged({a, b, c});
    EXPECT_EQ(merged({b, a}), merged({a, b})) << "seed " << seed;
    EXPECT_EQ(merged({c, b, a}), all) << "seed " << seed;
    std::vector<MergeEntry> b_and_c = b;
    b_and_c.insert(b_and_c.end(), c.begin(), c.end());
    EXPECT_EQ(merged({a, b_and_c}), all) << "seed " << seed;
    EXPECT_EQ(merged({a, a}), merged({a})) << "seed " << seed;
    EXPECT_EQ(merged({a, b, a, b}), merged({a, b})) << "seed " << seed;
  }
}

TEST(Merge, PredictionNeverReplacesMeasurement) {
  exports::Row measured = searched_row(spec_of(test::kPlainSpec), 64, gpu_device(), 50);
  exports::Row predicted = searched_row(spec_of(test::kPlainSpec), 64, gpu_device(), 1, Evidence::predicted);
  predicted.record.created = "2030-01-01T00:00:00Z";
  predicted.trials->record_digest = record_digest(predicted.record);
  for (const auto& order : {std::vector{measured, predicted}, std::vector{predicted, measured}}) {
    const Files files = merged({entries_of({order[0]}), entries_of({order[1]})});
    const Result<Record> kept = record_from_json(files.at("records/" + measured.record.id + ".json"));
    ASSERT_TRUE(kept.ok());
    EXPECT_EQ(kept->evidence, Evidence::measured);
  }
}

TEST(Merge, CountsWhatItDid) {
  const TemporaryDirectory folder;
  const auto database = *Database::open(folder.path() / "db");
  const auto entries = entries_of(sample_rows());
  MergeCounts counts = *database->merge(entries);
  EXPECT_EQ(counts.added, static_cast<int>(entries.size()));
  counts = *database->merge(entries);
  EXPECT_EQ(counts.kept, static_cast<int>(entries.size()));
  EXPECT_EQ(counts.added + counts.replaced, 0);
  std::vector<MergeEntry> later = {entries[0]};
  later[0].record.created = "2027-01-01T00:00:00Z";
  later[0].trials.reset();
  counts = *database->merge(later);
  EXPECT_EQ(counts.replaced, 1);
  // The trials of the search before say nothing of this one.
  EXPECT_FALSE((*database->find_trials(later[0].record)).has_value());
}

// Tables of two devices in one database.
TEST(Merge, OneDeviceIsNeverServedAnothersRecord) {
  const TemporaryDirectory folder;
  const auto database = *Database::open(folder.path() / "db");
  const KernelSpec spec = spec_of(test::kPlainSpec);
  const std::vector<DeviceInfo> devices = {gpu_device(), gpu_device("NVIDIA H200", 66), gpu_device("NVIDIA A100 80GB", 108),
                                           gpu_device("NVIDIA H200", 132, "emulator"), host_device()};
  ASSERT_TRUE(database->merge(entries_of({searched_row(spec, 64, devices[0], 10)})).ok());
  ASSERT_TRUE(database->merge(entries_of({searched_row(spec, 64, devices[4], 10)})).ok());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Result<Lookup> served = database->look_up(spec, 64, devices[i]);
    ASSERT_TRUE(served.ok());
    const bool own = i == 0 || i == 4;
    EXPECT_EQ(served->served == Served::exact, own) << i;
    if (own) {
      EXPECT_EQ(served->record->device.name, devices[i].name);
    } else {
      EXPECT_GE(static_cast<int>(served->served), static_cast<int>(Served::other_device)) << i;
    }
  }
}

TEST(Merge, KilledAnywhereItIsWholeAndTheNextOneFinishesIt) {
  const auto before = entries_of({searched_row(spec_of(test::kPlainSpec), 64, gpu_device(), 50)});
  auto added = entries_of({searched_row(spec_of(test::kPlainSpec), 1, gpu_device(), 5),
                           searched_row(spec_of(test::kResidualSpec), 64, host_device(), 70)});
  const Files old_files = merged({before}), new_files = merged({before, added});
  int killed = 0, finished = 0, untouched = 0;
  for (int calls = 0;; ++calls) {
    const TemporaryDirectory folder;
    const std::filesystem::path place = folder.path() / "db";
    ASSERT_TRUE((*Database::open(place))->merge(before).ok());
    const int status = test::wait_for(test::start_process([&] {
      const auto database = DirectoryDatabase::open(place, {}, std::make_unique<FaultyFileOps>(test::killed_after(calls)));
      return database.ok() && (*database)->merge(added).ok();
    }));
    // Whole at once; and after the next one that opens it, all or nothing.
    EXPECT_TRUE((*Database::open(place, {.read_only = true, .warn = {}}))->check()->empty()) << calls;
    const auto opened = Database::open(place);
    ASSERT_TRUE(opened.ok());
    EXPECT_TRUE((*opened)->check()->empty()) << calls;
    const Files files = files_in(place);
    EXPECT_TRUE(files == old_files || files == new_files) << calls;
    EXPECT_FALSE(std::filesystem::exists(place / "pending.json")) << calls;
    if (test::succeeded(status)) break;
    ++killed;
    ++(files == new_files ? finished : untouched);
  }
  EXPECT_GT(killed, 10);
  EXPECT_GT(finished, 0);
  EXPECT_GT(untouched, 0);
}

// The lock says that a process is at work: what it has written down is its own to finish.
TEST(Merge, AnotherOneAtWorkIsLeftAlone) {
  const TemporaryDirectory folder;
  const std::filesystem::path place = folder.path() / "db";
  const auto entries = entries_of(sample_rows());
  const auto database = *Database::open(place);
  test::write_file(place / "pending.json", pending_to_json(entries));
  {
    const Descriptor at_work(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(::flock(at_work.get(), LOCK_EX), 0);
    const Result<MergeCounts> refused = database->merge(entries);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("another process"), std::string::npos);
    ASSERT_TRUE(Database::open(place).ok());
    EXPECT_TRUE(std::filesystem::exists(place / "pending.json"));
    EXPECT_TRUE(files_in(place).empty());
  }
  ASSERT_TRUE(Database::open(place).ok());
  EXPECT_FALSE(std::filesystem::exists(place / "pending.json"));
  EXPECT_FALSE(files_in(place).empty());
}

TEST(Merge, FullDiskBeforeItBeginsChangesNothing) {
  const TemporaryDirectory folder;
  const std::filesystem::path place = folder.path() / "db";
  const auto before = entries_of({searched_row(spec_of(test::kPlainSpec), 64, gpu_device(), 50)});
  ASSERT_TRUE((*Database::open(place))->merge(before).ok());
  const Files old_files = files_in(place);
  const auto database = *DirectoryDatabase::open(
      place, {}, std::make_unique<FaultyFileOps>([](const std::string& call) { return call == "write" ? -ENOSPC : 0; }));
  const Result<MergeCounts> refused = database->merge(entries_of(sample_rows()));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::environment);
  EXPECT_EQ(files_in(place), old_files);
  EXPECT_FALSE(std::filesystem::exists(place / "pending.json"));
}

TEST(Merge, ADiskThatFillsHalfWayIsSaidAndTheNextWriterFinishes) {
  const TemporaryDirectory folder;
  const std::filesystem::path place = folder.path() / "db";
  const auto entries = entries_of(sample_rows());
  const auto fills = [&](const std::string& call) {
    return call == "write" && std::filesystem::exists(place / "pending.json") ? -ENOSPC : 0;
  };
  const auto database = *DirectoryDatabase::open(place, {}, std::make_unique<FaultyFileOps>(fills));
  const Result<MergeCounts> stopped = database->merge(entries);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::environment);
  EXPECT_NE(stopped.error().message.find("the rest of the merge is kept in pending.json"), std::string::npos)
      << stopped.error().message;
  EXPECT_NE(stopped.error().remedy.find("next finishes the merge"), std::string::npos) << stopped.error().remedy;
  const auto finished = Database::open(place);
  ASSERT_TRUE(finished.ok());
  EXPECT_FALSE(std::filesystem::exists(place / "pending.json"));
  forget_orphans(place, **finished);
  EXPECT_EQ(files_in(place), merged({entries}));
}

TEST(Merge, HostilePendingFileIsPassedOverWithAWarning) {
  const TemporaryDirectory folder;
  const std::filesystem::path place = folder.path() / "db";
  const auto before = entries_of({searched_row(spec_of(test::kPlainSpec), 64, gpu_device(), 50)});
  ASSERT_TRUE((*Database::open(place))->merge(before).ok());
  const Files old_files = files_in(place);
  for (const std::string& text :
       {std::string("{"), std::string(1 << 16, '['), std::string("{\"entries\": [], \"sha256\": \"00\"}")}) {
    test::write_file(place / "pending.json", text);
    std::vector<std::string> warnings;
    const auto database = Database::open(place, {.read_only = false, .warn = [&](const std::string& w) { warnings.push_back(w); }});
    ASSERT_TRUE(database.ok());
    EXPECT_EQ(warnings.size(), 1u);
    EXPECT_EQ(files_in(place), old_files);
    EXPECT_FALSE((*database)->merge(before).ok());
    const Result<std::vector<Damage>> damage = (*database)->check();
    ASSERT_TRUE(damage.ok());
    ASSERT_EQ(damage->size(), 1u);
    EXPECT_FALSE((*database)->unfinished_merge().has_value());
    EXPECT_EQ(damage->front().file, "pending.json");
    EXPECT_NE(damage->front().reason.find("delete it, and merge again"), std::string::npos) << damage->front().reason;
    std::filesystem::remove(place / "pending.json");
    EXPECT_TRUE((*database)->check()->empty());
    EXPECT_TRUE((*database)->merge(before).ok());
  }
}

TEST(Merge, APendingFileThatCanBeFinishedIsNoDamage) {
  const TemporaryDirectory folder;
  const std::filesystem::path place = folder.path() / "db";
  const auto database = *Database::open(place);
  EXPECT_FALSE(database->unfinished_merge().has_value());
  test::write_file(place / "pending.json", pending_to_json(entries_of(sample_rows())));
  EXPECT_TRUE(database->check()->empty());
  const std::optional<Damage> unfinished = database->unfinished_merge();
  ASSERT_TRUE(unfinished.has_value());
  EXPECT_EQ(unfinished->file, "pending.json");
  EXPECT_NE(unfinished->reason.find(std::to_string(sample_rows().size()) + " records"), std::string::npos) << unfinished->reason;
  EXPECT_FALSE((*Database::open(place))->unfinished_merge().has_value()) << "whoever opens it to write finishes it";
}

// ---- trials --------------------------------------------------------------------------------------------------------------------

TEST(TrialLog, RoundTripsAndRefusesWhatIsNotOne) {
  const TrialLog log = *sample_rows()[0].trials;
  const std::string text = to_json(log);
  const Result<TrialLog> read = trial_log_from_json(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), text);
  EXPECT_EQ(read->trials.size(), log.trials.size());
  for (const std::string& broken : {text.substr(0, text.size() / 2), std::string("[]"), std::string("{}"),
                                    std::string(text).replace(text.find("incorrect"), 9, "incorrecT")})
    EXPECT_FALSE(trial_log_from_json(broken).ok());
  TrialLog twice = log;
  twice.trials.push_back(twice.trials[0]);
  EXPECT_FALSE(trial_log_from_json(to_json(twice)).ok());
  TrialLog neither = log;
  neither.trials[0].time_us = 0;
  neither.trials[0].failure.clear();
  EXPECT_FALSE(trial_log_from_json(to_json(neither)).ok());
}

TEST(TrialLog, DamagedFileIsNoneAndCheckNamesIt) {
  const TemporaryDirectory folder;
  const auto database = *Database::open(folder.path() / "db");
  const exports::Row row = sample_rows()[0];
  ASSERT_TRUE(database->merge(entries_of({row})).ok());
  ASSERT_TRUE((*database->find_trials(row.record)).has_value());
  const std::string name = "trials/" + row.record.id + ".json";
  test::write_file(folder.path() / "db" / name, "{}");
  EXPECT_FALSE((*database->find_trials(row.record)).has_value());
  const std::vector<Damage> damage = *database->check();
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_EQ(damage[0].file, name);
  EXPECT_EQ(database->look_up(row.record.spec, row.record.rows, row.record.device)->served, Served::exact);
}

}  // namespace
}  // namespace headnorm
