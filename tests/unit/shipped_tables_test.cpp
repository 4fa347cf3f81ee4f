// Shipped tables: what a table file holds and refuses, and how tables and a user's database answer together.
#include "runtime/database/shipped_tables.h"

#include <gtest/gtest.h>

#include "runtime/database/layered_database.h"
#include "runtime/database/tuned_table.h"
#include "tests/support/database_samples.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

using test::sample_device;
using test::sample_record;
using test::sample_spec;

DeviceInfo sample_gpu(const char* target = "sm_90", const char* name = "NVIDIA H200", int units = 132) {
  DeviceInfo info;
  info.kind = "cuda";
  info.id = "model:h200";
  info.name = name;
  info.target = *parse_target(target);
  info.units = units;
  return info;
}

Record predicted(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device = sample_gpu()) {
  Record record = sample_record(spec, rows, device, Evidence::predicted);
  record.kernel = {};
  record.candidates = {};
  record.copy_ratio = 0;
  record.time.p20_us = record.time.p80_us = record.time.median_us;
  record.time.samples = 0;
  record.provenance = "cost model of h200";
  return record;
}

Record measured(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device = sample_device()) {
  Record record = sample_record(spec, rows, device);
  record.kernel = {};
  record.candidates = {};
  return record;
}

TEST(TunedTable, ComesBackAsItWasWritten) {
  for (const bool is_measured : {false, true}) {
    std::vector<Record> records;
    for (std::int64_t width : {1024, 512}) {
      for (std::int64_t rows : {64, 1, 4096})
        records.push_back(is_measured ? measured(sample_spec(width), rows) : predicted(sample_spec(width), rows));
    }
    const Result<std::string> text = table_to_json(records);
    ASSERT_TRUE(text.ok()) << text.error().message;
    const Result<std::vector<SpecRecords>> read = table_from_json(*text);
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->size(), 2u);
    std::vector<Record> flat;
    for (const SpecRecords& of_spec : *read) {
      for (Record record : of_spec) {
        EXPECT_EQ(record.id, "");
        record.id = record_id(record.spec, record.rows, record.device, record.policy);
        flat.push_back(record);
      }
    }
    for (const Record& record : records) {
      const auto same = [&](const Record& other) { return to_json(other) == to_json(record); };
      EXPECT_TRUE(std::any_of(flat.begin(), flat.end(), same)) << to_json(record);
    }
    std::reverse(records.begin(), records.end());
    EXPECT_EQ(*table_to_json(records), *text) << "the order does not matter";
  }
}

TEST(TunedTable, TakesOnlyRecordsThatAgree) {
  EXPECT_FALSE(table_to_json({}).ok());
  Record other = predicted(sample_spec(), 8);
  other.provenance = "another model";
  EXPECT_FALSE(table_to_json({predicted(sample_spec(), 4), other}).ok());
}

// C5, C20: every change is found, and nothing but an error comes of it.
TEST(TunedTable, RefusesEveryDamage) {
  const std::string text = *table_to_json({predicted(sample_spec(), 4), predicted(sample_spec(), 8)});
  for (std::size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_FALSE(table_from_json(text.substr(0, length)).ok()) << length;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const auto read = table_from_json(changed);
    // White space between the values is no content.
    EXPECT_TRUE(!read.ok() || text[i] == ' ' || text[i] == '\n') << i;
  }
  EXPECT_FALSE(table_from_json("[]").ok());
}

class ShippedTablesTest : public ::testing::Test {
 protected:
  void ship(const std::string& name, const std::vector<Record>& records) {
    test::write_file(directory_.path() / name, *table_to_json(records));
  }
  std::shared_ptr<ShippedTables> tables() {
    return std::make_shared<ShippedTables>(directory_.path(), [this](const std::string& text) { warnings_.push_back(text); });
  }
  std::unique_ptr<Database> layered() { return add_shipped_tables(*Database::open(user_.path() / "db"), tables()); }
  static std::string answer(const Lookup& lookup) {
    return std::string(to_text(lookup.served)) + " " + to_text(lookup.origin) +
           (lookup.record ? " " + std::to_string(lookup.record->rows) : "");
  }

  test::TemporaryDirectory directory_, user_;
  std::vector<std::string> warnings_;
};

TEST_F(ShippedTablesTest, AnswerWithoutAnythingTuned) {
  ship("sm_90.h200.json", {predicted(sample_spec(), 64), predicted(sample_spec(), 4096)});
  const auto database = layered();
  const Lookup lookup = *database->look_up(sample_spec(), 64, sample_gpu());
  EXPECT_EQ(answer(lookup), "predicted shipped 64");
  EXPECT_EQ(lookup.record->id, record_id(sample_spec(), 64, sample_gpu(), CachePolicy::cold));
  EXPECT_EQ(describe(lookup), "predicted by a cost model for NVIDIA H200 at 64 rows, shipped with headnorm");
  EXPECT_EQ(answer(*database->look_up(sample_spec(), 1000, sample_gpu())), "nearest_rows shipped 4096");
  EXPECT_EQ(answer(*database->look_up(sample_spec(2048), 64, sample_gpu())), "other_shape shipped 64");
  EXPECT_TRUE(database->list()->empty()) << "they are no part of the user's database";
}

TEST_F(ShippedTablesTest, AnotherDeviceIsNeverExact) {
  ship("sm_90.h200.json", {predicted(sample_spec(), 64)});
  ship("x86-64-v4.sample.json", {measured(sample_spec(), 64)});
  const auto database = layered();
  EXPECT_EQ(answer(*database->look_up(sample_spec(), 64, sample_gpu("sm_90", "NVIDIA H200", 78))), "other_device shipped 64");
  EXPECT_EQ(answer(*database->look_up(sample_spec(), 64, sample_gpu("sm_90", "NVIDIA H100 80GB HBM3"))), "other_device shipped 64");
  EXPECT_EQ(answer(*database->look_up(sample_spec(), 64, sample_gpu("sm_80"))), "default user");
  DeviceInfo host = sample_device();
  EXPECT_EQ(answer(*database->look_up(sample_spec(), 64, host)), "exact shipped 64");
  host.target = make_host_target(HostIsa::x86_64_v4_bf16);
  EXPECT_EQ(answer(*database->look_up(sample_spec(), 64, host)), "other_device shipped 64");
  host.target = make_host_target(HostIsa::x86_64_v3);
  EXPECT_EQ(answer(*database->look_up(sample_spec(), 64, host)), "default user");
}

TEST_F(ShippedTablesTest, TheUsersRecordsComeFirstAmongEquals) {
  ship("sm_90.h200.json", {predicted(sample_spec(), 64), predicted(sample_spec(), 4096)});
  const auto database = layered();
  const auto now = [&](std::int64_t rows) { return answer(*database->look_up(sample_spec(), rows, sample_gpu())); };
  const auto publish = [&](const Record& record) { ASSERT_TRUE(database->publish(record).ok()); };
  publish(sample_record(sample_spec(), 64, sample_gpu(), Evidence::emulated));
  EXPECT_EQ(now(64), "predicted shipped 64") << "a dry run gives way";
  publish(sample_record(sample_spec(), 5000, sample_gpu()));
  EXPECT_EQ(now(64), "predicted shipped 64") << "predicted and exact before measured far away";
  EXPECT_EQ(now(4000), "nearest_rows user 5000") << "measured nearby before predicted";
  publish(sample_record(sample_spec(), 64, sample_gpu(), Evidence::predicted));
  EXPECT_EQ(now(64), "predicted user 64");
  publish(sample_record(sample_spec(), 64, sample_gpu()));
  EXPECT_EQ(now(64), "exact user 64");
}

TEST_F(ShippedTablesTest, OnlyFilesOfTheInstructionSetAreRead) {
  test::write_file(directory_.path() / "sm_80.a100.json", "no table");
  ship("sm_90.h200.json", {predicted(sample_spec(), 64)});
  const auto shipped = tables();
  EXPECT_EQ(answer(*shipped->look_up(sample_spec(), 64, sample_gpu())), "predicted shipped 64");
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(answer(*shipped->look_up(sample_spec(), 64, sample_gpu("sm_80"))), "default user");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("sm_80.a100.json"), std::string::npos);
  EXPECT_EQ(answer(*shipped->look_up(sample_spec(), 64, sample_gpu("sm_80"))), "default user");
  EXPECT_EQ(warnings_.size(), 1u) << "a file is read once";
  EXPECT_EQ(shipped->list().size(), 1u);
}

TEST_F(ShippedTablesTest, WithoutAUsersDatabaseTheyAnswerAndKeepNothing) {
  ship("sm_90.h200.json", {predicted(sample_spec(), 64)});
  const auto database = add_shipped_tables(nullptr, tables());
  EXPECT_EQ(answer(*database->look_up(sample_spec(), 64, sample_gpu())), "predicted shipped 64");
  EXPECT_FALSE(database->publish(sample_record()).ok());
  EXPECT_FALSE(database->find(std::string(32, '0'))->has_value());
  EXPECT_TRUE(database->check()->empty());
  EXPECT_EQ(database->list()->size(), 1u) << "to warm it";
  EXPECT_FALSE(database->look_up(KernelSpec(), 64, sample_gpu()).ok()) << "an illegal spec is an error, as ever";
}

}  // namespace
}  // namespace headnorm
