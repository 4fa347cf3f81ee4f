// The database's ordinary life: storing, finding, listing, and what a look-up prefers.
#include <gtest/gtest.h>

#include "tests/support/database_samples.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

using test::sample_device;
using test::sample_record;
using test::sample_spec;

class DatabaseTest : public ::testing::Test {
 protected:
  DatabaseTest() { database = open(); }

  std::unique_ptr<Database> open() {
    DatabaseOptions options;
    options.warn = [this](const std::string& message) { warnings.push_back(message); };
    Result<std::unique_ptr<Database>> opened = Database::open(directory.path() / "db", options);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(opened).value();
  }
  void publish(const Record& record) {
    const Result<void> published = database->publish(record);
    ASSERT_TRUE(published.ok()) << published.error().message;
  }
  Lookup look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device = sample_device()) {
    Result<Lookup> found = database->look_up(spec, rows, device);
    EXPECT_TRUE(found.ok()) << found.error().message;
    EXPECT_TRUE(make_plan(spec, found->schedule, device.target).ok());
    return std::move(found).value();
  }
  std::string served(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device = sample_device()) {
    const Lookup found = look_up(spec, rows, device);
    return std::string(to_text(found.served)) + (found.record ? " " + std::to_string(found.record->rows) : "");
  }

  test::TemporaryDirectory directory;
  std::vector<std::string> warnings;
  std::unique_ptr<Database> database;
};

TEST_F(DatabaseTest, WhatIsPublishedIsFoundByThisAndByAnotherOne) {
  const Record record = sample_record();
  publish(record);
  for (int again = 0; again < 2; ++again) {
    const Result<std::optional<Record>> found = database->find(record.id);
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ(to_json(**found), to_json(record));
    EXPECT_EQ(served(record.spec, record.rows), "exact 1024");
    database = open();
  }
  EXPECT_FALSE(database->find(std::string(32, '0'))->has_value());
  EXPECT_FALSE(database->find("../records/" + record.id)->has_value());
  EXPECT_TRUE(database->check()->empty());
  EXPECT_TRUE(warnings.empty());
}

TEST_F(DatabaseTest, ListIsSortedBySpecRowsAndDevice) {
  DeviceInfo other = sample_device();
  other.name = "A CPU";
  publish(sample_record(sample_spec(), 2048));
  publish(sample_record(sample_spec(), 512));
  publish(sample_record(sample_spec(), 512, other));
  publish(sample_record(sample_spec(2048), 9));
  const Result<std::vector<Record>> records = database->list();
  ASSERT_TRUE(records.ok());
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const Record& record : *records) shapes.emplace_back(record.spec.width, record.rows);
  EXPECT_EQ(shapes, (std::vector<std::pair<std::int64_t, std::int64_t>>{{2048, 9}, {4096, 512}, {4096, 512}, {4096, 2048}}));
  EXPECT_EQ((*records)[1].device.name, "A CPU");
}

TEST_F(DatabaseTest, LookUpPrefersInTheDocumentedOrder) {
  const KernelSpec spec = sample_spec();
  EXPECT_EQ(served(spec, 1000), "default");
  publish(sample_record(sample_spec(2048), 1000));
  EXPECT_EQ(served(spec, 1000), "other_shape 1000");
  publish(sample_record(spec, 4001));
  EXPECT_EQ(look_up(spec, 1000).served, Served::far_rows);
  EXPECT_EQ(served(spec, 1000), "nearest_rows 4001");
  publish(sample_record(spec, 1000, sample_device(), Evidence::predicted));
  EXPECT_EQ(served(spec, 1000), "predicted 1000");
  publish(sample_record(spec, 4000));
  EXPECT_EQ(look_up(spec, 1000).served, Served::nearest_rows);
  EXPECT_EQ(served(spec, 1000), "nearest_rows 4000");
  publish(sample_record(spec, 600));
  EXPECT_EQ(served(spec, 1000), "nearest_rows 600");
  publish(sample_record(spec, 1000, sample_device(), Evidence::measured, CachePolicy::warm));
  EXPECT_EQ(served(spec, 1000), "exact 1000");
  EXPECT_EQ(look_up(spec, 1000).record->policy, CachePolicy::warm);
  publish(sample_record(spec, 1000));
  EXPECT_EQ(look_up(spec, 1000).record->policy, CachePolicy::cold);
}

TEST_F(DatabaseTest, NearestRowsIsByRatioAndTheSmallerOfTwo) {
  const KernelSpec spec = sample_spec();
  publish(sample_record(spec, 3));
  publish(sample_record(spec, 27));
  EXPECT_EQ(served(spec, 9), "nearest_rows 3");
  EXPECT_EQ(served(spec, 10), "nearest_rows 27");
  EXPECT_EQ(served(spec, 0), "nearest_rows 3");
  EXPECT_EQ(look_up(spec, 12).served, Served::nearest_rows);
  EXPECT_EQ(look_up(spec, 109).served, Served::far_rows);
}

TEST_F(DatabaseTest, OtherShapesAreOfTheSameOptionsNearestAndLegal) {
  publish(sample_record(sample_spec(1024, 64), 1000));
  publish(sample_record(sample_spec(8192, 256), 64));
  KernelSpec gated = sample_spec(4096, 128);
  gated.gate = Gate::seednorm;
  gated.seed_heads = 32;
  publish(sample_record(*make_spec(gated), 1000));
  const Lookup found = look_up(sample_spec(), 1000);
  EXPECT_EQ(found.served, Served::other_shape);
  ASSERT_TRUE(found.record.has_value());
  EXPECT_EQ(found.record->spec.width, 8192);

  // The only record of the class asks for a part in registers; this one does not fit there.
  KernelSpec f32 = sample_spec(256, 64);
  f32.x_dtype = f32.y_dtype = Dtype::f32;
  Record in_registers = sample_record(*make_spec(f32), 1000);
  HostSchedule schedule;
  schedule.form = HostForm::reg;
  in_registers.schedule = make_plan(in_registers.spec, schedule, in_registers.device.target)->schedule;
  in_registers.kernel = {};
  publish(in_registers);
  f32.width = f32.head_size = 4096;
  EXPECT_EQ(served(*make_spec(f32), 1000), "default");
  f32.width = f32.head_size = 128;
  EXPECT_EQ(served(*make_spec(f32), 1000), "other_shape 1000");
}

// The order of docs/database.md, from the last to the first: each new record is preferred to all before it.
TEST_F(DatabaseTest, EveryKindOfAnswerComesBeforeTheNext) {
  const KernelSpec spec = sample_spec();
  DeviceInfo twin = sample_device();
  twin.units = 3;
  const auto served_now = [&] { return look_up(spec, 1000).served; };
  EXPECT_EQ(served_now(), Served::fallback);
  publish(sample_record(sample_spec(2048), 1000, twin));
  EXPECT_EQ(served_now(), Served::other_device);
  publish(sample_record(spec, 1000, twin, Evidence::predicted));
  EXPECT_EQ(look_up(spec, 1000).record->spec.width, 4096) << "of other devices, this shape before another";
  publish(sample_record(sample_spec(2048), 1000, sample_device(), Evidence::predicted));
  EXPECT_EQ(served_now(), Served::other_shape);
  publish(sample_record(spec, 4096, sample_device(), Evidence::predicted));
  EXPECT_EQ(served_now(), Served::predicted_rows);
  EXPECT_EQ(served(spec, 1000), "nearest_rows 4096");
  publish(sample_record(spec, 1024, sample_device(), Evidence::predicted));
  EXPECT_EQ(served(spec, 1000), "nearest_rows 1024") << "the nearest by ratio";
  publish(sample_record(spec, 5000));
  EXPECT_EQ(served_now(), Served::far_rows);
  publish(sample_record(spec, 1000, sample_device(), Evidence::predicted));
  EXPECT_EQ(served_now(), Served::predicted);
  publish(sample_record(spec, 4000));
  EXPECT_EQ(served_now(), Served::nearest_rows);
  publish(sample_record(spec, 1000));
  EXPECT_EQ(served_now(), Served::exact);
}

// A record of another device is never exact, nor anything else that is said of this one.
TEST_F(DatabaseTest, RecordsOfAnotherDeviceAreServedAsSuchAlone) {
  const KernelSpec spec = sample_spec();
  DeviceInfo name = sample_device(), units = name, target = name, kind = name;
  name.name = "Sample CPU";
  units.units = 3;
  target.target = make_host_target(HostIsa::x86_64_v3);
  kind.kind = "emulator";
  publish(sample_record(spec, 1000, target));
  publish(sample_record(spec, 1000, kind, Evidence::emulated));
  EXPECT_EQ(served(spec, 1000), "default") << "other instructions say nothing of these, and a dry run nothing of any";
  publish(sample_record(spec, 1000, name));
  EXPECT_EQ(served(spec, 1000), "other_device 1000");
  publish(sample_record(spec, 1000, units));
  EXPECT_EQ(look_up(spec, 1000).record->device.units, 3) << "the same name before another";
  publish(sample_record(spec, 9));
  EXPECT_EQ(served(spec, 1000), "nearest_rows 9") << "and everything of this device before both";
  for (const DeviceInfo& other : {name, units, target}) EXPECT_EQ(served(spec, 1000, other), "exact 1000");
  EXPECT_EQ(database->list()->size(), 5u);
}

// C12: GPUs of other capabilities say nothing of one another, versions of PTX do.
TEST_F(DatabaseTest, AGpuIsServedByItsOwnCapabilityAlone) {
  const KernelSpec spec = sample_spec();
  const auto gpu = [](const char* target_text) {
    DeviceInfo info;
    info.kind = "cuda";
    info.name = std::string("GPU of ") + target_text;
    info.target = *parse_target(target_text);
    info.units = 100;
    return info;
  };
  for (const char* target : {"sm_80", "sm_86", "sm_90", "sm_100", "sm_120"}) {
    EXPECT_EQ(served(spec, 64, gpu(target)), "default") << target;
    publish(sample_record(spec, 64, gpu(target)));
    EXPECT_EQ(served(spec, 64, gpu(target)), "exact 64") << target;
  }
  EXPECT_EQ(served(spec, 64, gpu("sm_89")), "default");
  EXPECT_EQ(served(spec, 64, gpu("sm_100+ptx88")), "other_device 64");
  EXPECT_EQ(look_up(spec, 64, gpu("sm_100+ptx88")).record->device.target.sm, 100);
  DeviceInfo updated = gpu("sm_100");
  updated.target = *parse_target("sm_100+ptx88");
  EXPECT_EQ(served(spec, 64, updated), "exact 64") << "the same GPU with another driver";
}

TEST_F(DatabaseTest, AnswersSayWhereTheyComeFrom) {
  const KernelSpec spec = sample_spec();
  EXPECT_EQ(describe(look_up(spec, 1000)), "the default: nothing is known of this shape here");
  DeviceInfo gpu = sample_device();
  gpu.name = "Another CPU";
  publish(sample_record(sample_spec(2048), 1000, gpu, Evidence::predicted));
  EXPECT_EQ(describe(look_up(spec, 8)), "predicted by a cost model for Another CPU at 1000 rows, width 2048, head size 256");
  publish(sample_record(spec, 8));
  EXPECT_EQ(describe(look_up(spec, 8)), "measured on " + sample_device().name + " at 8 rows");
}

// Numbers that are no part of how memory is driven do not part one kernel's records from another's.
TEST_F(DatabaseTest, AnotherEpsIsAnotherSpecOfTheSameClass) {
  publish(sample_record(sample_spec(), 64));
  KernelSpec spec = sample_spec();
  spec.eps = 1e-5;
  EXPECT_EQ(served(*make_spec(spec), 64), "other_shape 64");
  spec.y_dtype = Dtype::f32;
  EXPECT_EQ(served(*make_spec(spec), 64), "default");
}

TEST_F(DatabaseTest, BetterEvidenceIsNotReplacedByWorse) {
  const KernelSpec spec = sample_spec();
  publish(sample_record(spec, 8, sample_device(), Evidence::predicted));
  EXPECT_EQ(served(spec, 8), "predicted 8");
  Record measured = sample_record(spec, 8);
  publish(measured);
  publish(sample_record(spec, 8, sample_device(), Evidence::predicted));
  EXPECT_EQ(served(spec, 8), "exact 8");
  measured.time.median_us = 3;
  publish(measured);
  EXPECT_EQ(look_up(spec, 8).record->time.median_us, 3);
}

TEST_F(DatabaseTest, EmulatedRecordsComeAfterMeasuredAndPredictedOnes) {
  const KernelSpec spec = sample_spec();
  const auto evidence = [&](std::int64_t rows) { return look_up(spec, rows).record->evidence; };
  publish(sample_record(spec, 1000, sample_device(), Evidence::emulated));
  EXPECT_EQ(served(spec, 1000), "predicted 1000");
  EXPECT_EQ(evidence(1000), Evidence::emulated);
  EXPECT_EQ(served(spec, 2000), "default") << "nor do they say anything of other rows";
  publish(sample_record(spec, 9));
  EXPECT_EQ(look_up(spec, 1000).served, Served::far_rows) << "measured, though at other rows";
  publish(sample_record(spec, 1000, sample_device(), Evidence::predicted));
  EXPECT_EQ(evidence(1000), Evidence::predicted);
  publish(sample_record(spec, 1000, sample_device(), Evidence::emulated));
  EXPECT_EQ(evidence(1000), Evidence::predicted) << "better evidence is not replaced";
}

TEST_F(DatabaseTest, ALookUpSeesWhatOthersPublishAndRemove) {
  const Record record = sample_record();
  EXPECT_EQ(served(record.spec, record.rows), "default");
  ASSERT_TRUE(open()->publish(record).ok());
  EXPECT_EQ(served(record.spec, record.rows), "exact 1024");
  std::filesystem::remove(database->directory() / "records" / (record.id + ".json"));
  EXPECT_EQ(served(record.spec, record.rows), "default");
}

TEST_F(DatabaseTest, KernelsAreFoundByKeyAndByRecord) {
  const Artifact artifact = test::sample_artifact(test::sample_plan(sample_spec(), sample_device()));
  EXPECT_FALSE(database->find_kernel(artifact.key)->has_value());
  const Result<StoredKernel> stored = database->store_kernel(artifact);
  ASSERT_TRUE(stored.ok()) << stored.error().message;
  for (const auto& found : {database->find_kernel(artifact.key), database->load_kernel(*stored)}) {
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ((*found)->bytes, artifact.bytes);
    EXPECT_EQ((*found)->entry, artifact.entry);
    EXPECT_EQ((*found)->key, artifact.key);
    EXPECT_EQ((*found)->backend, artifact.backend);
    EXPECT_EQ((*found)->kind, artifact.kind);
  }
  // Another kernel under the same key, as a record from elsewhere might name it.
  StoredKernel foreign = *stored;
  foreign.sha256 = sha256_hex("other");
  EXPECT_FALSE(database->load_kernel(foreign)->has_value());
  EXPECT_FALSE(database->load_kernel(StoredKernel{})->has_value());
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(DatabaseTest, IndexIsRebuiltFromTheRecords) {
  publish(sample_record(sample_spec(), 8));
  const std::filesystem::path index = database->directory() / "index.json";
  const std::string whole = test::read_file(index);
  EXPECT_NE(whole.find(sample_record(sample_spec(), 8).id), std::string::npos);
  for (const std::string damage : {"", "{\"records\": [\"../../etc/passwd\"]}", "\xff"}) {
    test::write_file(index, damage);
    EXPECT_EQ(served(sample_spec(), 8), "exact 8");
    EXPECT_TRUE(database->check()->empty());
    EXPECT_EQ(test::read_file(index), whole);
  }
  std::filesystem::remove(index);
  EXPECT_EQ(open()->list()->size(), 1u);
  EXPECT_TRUE(database->check()->empty());
  EXPECT_EQ(test::read_file(index), whole);
}

}  // namespace
}  // namespace headnorm
