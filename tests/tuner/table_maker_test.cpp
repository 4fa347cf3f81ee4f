// The shipped tables: that they are whole, that they hold what they promise, and that a sample made again is the same bytes.
#include "tuning_db/maker/table_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "runtime/database/shipped_tables.h"
#include "runtime/database/tuned_table.h"
#include "tuner/measure.h"

namespace headnorm::tables {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<SpecRecords> shipped(const std::string& name) {
  Result<std::vector<SpecRecords>> table = table_from_json(read_text(std::filesystem::path(HEADNORM_TABLES) / name));
  EXPECT_TRUE(table.ok()) << name << ": " << table.error().message;
  return table.ok() ? *std::move(table) : std::vector<SpecRecords>();
}

class PredictedTable : public ::testing::TestWithParam<const char*> {
 protected:
  const GpuModel& model() const { return *find_gpu_model(GetParam()); }
  std::vector<SpecRecords> table() const { return shipped(table_file_name(model().target, model().slug)); }
};

TEST_P(PredictedTable, HasEveryPresetAtEveryBucketWithALegalSchedule) {
  std::map<std::string, std::set<std::int64_t>> rows;
  for (const SpecRecords& records : table()) {
    for (const Record& record : records) {
      EXPECT_EQ(record.evidence, Evidence::predicted);
      EXPECT_EQ(record.device.name, model().name);
      EXPECT_TRUE(make_plan(record.spec, record.schedule, record.device.target).ok()) << to_text(record.schedule);
      rows[to_text(record.spec)].insert(record.rows);
    }
  }
  for (const ShippedShape& shape : predicted_shapes()) {
    const std::set<std::int64_t> expected(shape.rows.begin(), shape.rows.end());
    EXPECT_EQ(rows[to_text(shape.spec)], expected) << to_text(shape.spec);
  }
}

TEST_P(PredictedTable, ASampleMadeAgainIsTheSameBytes) {
  const std::vector<ShippedShape> shapes = predicted_shapes();
  std::vector<ShippedShape> sample;
  std::set<std::string> texts;
  for (std::size_t i = 0; i < shapes.size(); i += shapes.size() / 3) {
    sample.push_back(shapes[i]);
    texts.insert(to_text(shapes[i].spec));
  }
  std::vector<Record> records;
  for (const SpecRecords& of_spec : table()) {
    if (!of_spec.empty() && texts.contains(to_text(of_spec.front().spec)))
      records.insert(records.end(), of_spec.begin(), of_spec.end());
  }
  const Result<std::string> again = make_predicted_table(model(), sample);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, *make_predicted_table(model(), sample)) << "nothing but the shapes decides the bytes";
  ASSERT_FALSE(records.empty());
  if (records.front().provenance.find(search_digest(model())) == std::string::npos)
    GTEST_SKIP() << "the tables are older than the search space or the cost model: make them again with tools/make_tuning_db";
  EXPECT_EQ(*again, *table_to_json(records)) << "make the tables again with tools/make_tuning_db";
}

// Tables that another model has made are known by it.
TEST(SearchDigest, IsOfTheSearchSpaceAndOfThePredictedTimes) {
  const GpuModel& model = *find_gpu_model("h200");
  const std::string digest = search_digest(model);
  EXPECT_EQ(digest.size(), 8u);
  EXPECT_EQ(search_digest(model), digest);
  GpuModel slower = model;
  slower.at(Figure::memory_latency_ns).value *= 1.1;
  EXPECT_NE(search_digest(slower), digest);
  GpuModel older = model;
  older.target = *parse_target("sm_80");
  EXPECT_NE(search_digest(older), digest);
}

INSTANTIATE_TEST_SUITE_P(Gpus, PredictedTable, ::testing::Values("a100", "h200", "b200", "rtx5090"),
                         [](const auto& test) { return std::string(test.param); });

TEST(MeasuredTable, SaysWhereAndHowItWasMeasured) {
  std::set<std::string> families;
  for (const auto& entry : std::filesystem::directory_iterator(HEADNORM_TABLES)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("x86-64-v")) continue;
    std::set<std::pair<std::string, std::int64_t>> found, wanted;
    for (const SpecRecords& records : shipped(name)) {
      for (const Record& record : records) {
        EXPECT_EQ(record.evidence, Evidence::measured);
        EXPECT_GE(record.time.samples, kFewestSamples);
        EXPECT_GT(record.copy_ratio, 0);
        EXPECT_NE(record.provenance, "");
        EXPECT_NE(record.created, "");
        EXPECT_TRUE(make_plan(record.spec, record.schedule, record.device.target).ok()) << to_text(record.schedule);
        found.emplace(to_text(record.spec), record.rows);
      }
    }
    for (const ShippedShape& shape : measured_shapes()) {
      for (const std::int64_t rows : shape.rows) wanted.emplace(to_text(shape.spec), rows);
    }
    EXPECT_EQ(found, wanted) << name;
    families.insert(name.substr(0, name.find('.')));
  }
  EXPECT_EQ(families, (std::set<std::string>{"x86-64-v3", "x86-64-v4"}));
}

TEST(ShippedTables, AnswerForEveryTargetTheyAreMadeFor) {
  ShippedTables tables(HEADNORM_TABLES, [](const std::string& text) { ADD_FAILURE() << text; });
  KernelSpec spec;
  spec.width = 4096;
  spec.head_size = 256;
  for (const char* target : {"sm_80", "sm_90", "sm_100", "sm_120", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16"}) {
    DeviceInfo device;
    device.target = *parse_target(target);
    const Result<Lookup> lookup = tables.look_up(spec, 1000, device);
    ASSERT_TRUE(lookup.ok());
    EXPECT_EQ(lookup->served, Served::other_device) << target;
  }
}

TEST(TableNames, AreOfTargetAndDevice) {
  EXPECT_EQ(table_file_name(*parse_target("sm_100+ptx88"), "b200"), "sm_100.b200.json");
  EXPECT_EQ(table_file_name(*parse_target("x86-64-v4+bf16"), "Intel(R) Xeon(R) Processor"),
            "x86-64-v4.intel-r-xeon-r-processor.json");
}

}  // namespace
}  // namespace headnorm::tables
