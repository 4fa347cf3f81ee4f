// Cost models and shipped tables from the command line: what is predicted, stored, preferred and said.
#include <cmath>
#include <sstream>

#include "runtime/database/database.h"
#include "tests/support/command.h"
#include "tuner/cost_model/gpu_model.h"
#include "tuner/cost_model/prediction.h"
#include "tuner/search_space.h"

namespace headnorm::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class ModelCommand : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (command_.home() / name).string(); }

  json answer(Words arguments, const std::map<std::string, std::string>& variables = {}) const {
    arguments.push_back("--json");
    const CommandResult result = command_.run(arguments, variables);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return result.json();
  }

  json tune(const Words& more = {}) const {
    Words words = {"tune", "--width", "1024", "--rows", "1,4096", "--device", "model:h200", "--db", path("db")};
    words.insert(words.end(), more.begin(), more.end());
    return answer(words);
  }

  std::unique_ptr<Database> database() const { return *Database::open(path("db")); }

  Command command_;
};

KernelSpec spec_of(std::int64_t width) {
  KernelSpec spec;
  spec.width = width;
  spec.head_size = 256;
  return *make_spec(spec);
}

TEST_F(ModelCommand, TuneSearchesByTheModelAndSaysPredicted) {
  const json document = tune();
  ASSERT_EQ(document["results"].size(), 2u);
  for (const json& result : document["results"]) {
    EXPECT_EQ(result["evidence"], "predicted");
    EXPECT_EQ(result["device"], "model:h200");
    EXPECT_EQ(result["device_name"], "NVIDIA H200");
    EXPECT_EQ(result["target"], "sm_90+ptx80");
    EXPECT_EQ(result["origin"], "tuned");
    EXPECT_EQ(result["candidates"]["measured"], 0);
    EXPECT_EQ(result["candidates"]["verified"], 0);
    EXPECT_EQ(result["time_us"]["samples"], 0);
  }
  const CommandResult text =
      command_.run({"tune", "--width", "1024", "--rows", "64", "--device", "model:h200", "--db", path("db")});
  EXPECT_NE(text.out.find("Predicted, not measured"), std::string::npos) << text.out;

  // The record has the key of the device itself, and a look-up for it says what it is.
  const json explained = answer({"explain", "--width", "1024", "--rows", "4096", "--device", "model:h200", "--db", path("db")});
  EXPECT_EQ(explained["served"], "predicted");
  EXPECT_EQ(explained["record"], document["results"][1]["record"]);
  EXPECT_EQ(explained["schedule"], document["results"][1]["schedule"]);
  EXPECT_EQ(explained["from"], "predicted by a cost model for NVIDIA H200 at 4096 rows");
}

// A measured record of the same key is served, answered, and never replaced.
TEST_F(ModelCommand, AMeasuredRecordAlwaysWins) {
  const json predicted = tune()["results"][1];
  Record measured = **database()->find(predicted["record"].get<std::string>());
  measured.evidence = Evidence::measured;
  measured.provenance = "";
  measured.schedule = default_schedule(measured.spec, measured.device.target);
  measured.time = {9, 8, 10, 25};
  ASSERT_TRUE(database()->publish(measured).ok());

  EXPECT_EQ(tune()["results"][1]["origin"], "stored");
  EXPECT_EQ(tune()["results"][1]["evidence"], "measured");
  const CommandResult again =
      command_.run({"tune", "--width", "1024", "--rows", "4096", "--device", "model:h200", "--db", path("db"), "--retune"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.err.find("stays"), std::string::npos) << again.err;
  const json explained = answer({"explain", "--width", "1024", "--rows", "4096", "--device", "model:h200", "--db", path("db")});
  EXPECT_EQ(explained["served"], "exact");
  EXPECT_EQ(explained["schedule"], to_text(measured.schedule));
  EXPECT_EQ(explained["from"], "measured on NVIDIA H200 at 4096 rows");
}

TEST_F(ModelCommand, ExplainBreaksAPredictionDown) {
  for (const GpuModel& model : gpu_models()) {
    const json p = answer({"explain", "--width", "4096", "--rows", "65536", "--device", "model:" + model.slug})["prediction"];
    EXPECT_EQ(p["device"], model.slug);
    EXPECT_EQ(p["bound"], "memory");
    EXPECT_GT(p["time_us"].get<double>(), p["parts_us"]["memory"].get<double>());
    EXPECT_EQ(p["occupancy"]["registers_from"], "estimate") << "there is no PATH to find ptxas in";
    EXPECT_GT(p["assumed_figures"].get<int>(), 0);
    for (const char* key : {"bytes", "instructions", "in_flight_bytes", "needed_bytes", "waves", "blocks"})
      EXPECT_TRUE(p.contains(key)) << key;
  }
  const CommandResult text = command_.run({"explain", "--width", "4096", "--device", "model:h200"});
  EXPECT_NE(text.out.find("(not a measurement)"), std::string::npos) << text.out;
}

TEST_F(ModelCommand, DevicesListTheModelsAsSuch) {
  std::map<std::string, std::string> kinds;
  const json document = answer({"devices"});
  for (const json& device : document["devices"]) kinds[device["id"]] = device["kind"];
  for (const GpuModel& model : gpu_models()) EXPECT_EQ(kinds["model:" + model.slug], "model");
}

// Of one shape, row counts and schedules as a device of these figures would take them; the right ones and some to be passed over.
std::string csv_of(const GpuModel& truth) {
  std::ostringstream csv;
  csv << "spec,rows,schedule,time_us,evidence,device_name\n";
  for (std::int64_t width : {768, 8192}) {
    const SearchSpace space = *build_search_space(spec_of(width), truth.target);
    for (std::int64_t rows : {1, 256, 16384}) {
      for (std::size_t i = 0; i < space.plans.size(); i += space.plans.size() / 12) {
        const Plan& plan = space.plans[i];
        csv << '"' << to_text(plan.spec) << "\"," << rows << ",\"" << to_text(plan.schedule) << "\","
            << predict(plan, count_tile(plan), rows, truth).time_us << ",measured,\"" << truth.name << "\"\n";
      }
    }
  }
  csv << '"' << to_text(spec_of(768)) << "\",1,\"lanes=32\",1e6,predicted,\"" << truth.name << "\"\n";
  csv << '"' << to_text(spec_of(768)) << "\",1,\"lanes=32\",1e6,measured,\"Another GPU\"\n";
  return csv.str();
}

TEST_F(ModelCommand, CalibrateFitsAModelThatTuneTakes) {
  GpuModel truth = *find_gpu_model("h200");
  truth.at(Figure::memory_efficiency).value = 0.75;
  truth.at(Figure::launch_us).value = 4;
  write_whole(path("times.csv"), csv_of(truth));
  const json document = answer({"calibrate", "--device", "model:h200", "--csv", path("times.csv"), "-o", path("mine.json")});
  EXPECT_NEAR(document["figures"]["memory_efficiency"]["after"].get<double>(), 0.75, 0.02);
  EXPECT_NEAR(document["figures"]["launch_us"]["after"].get<double>(), 4, 0.1);
  EXPECT_EQ(document["figures"]["launch_us"]["calibrated"], true);
  EXPECT_LT(document["figures"]["launch_us"]["uncertainty"].get<double>(), 0.2);
  EXPECT_LT(document["after"]["error"].get<double>(), document["before"]["error"].get<double>());
  EXPECT_GT(document["after"]["kendall"].get<double>(), 0.98);
  const GpuModel fitted = *gpu_model_from_json(read_whole(path("mine.json")));
  EXPECT_EQ(fitted.at(Figure::launch_us).confidence, Confidence::calibrated);
  const json tuned =
      answer({"tune", "--width", "1024", "--rows", "64", "--device", "model:" + path("mine.json"), "--db", path("db")});
  EXPECT_EQ(tuned["results"][0]["evidence"], "predicted");
}

TEST_F(ModelCommand, CalibrateSaysWhatIsWrongWithALine) {
  write_whole(path("times.csv"), "spec,rows,schedule,time_us\n\"width=8\",1,\"lanes=3\",2\n");
  const CommandResult result = command_.run({"calibrate", "--device", "model:h200", "--csv", path("times.csv")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("line 2"), std::string::npos) << result.err;
  write_whole(path("times.csv"), "spec,rows,time_us\n");
  EXPECT_NE(command_.run({"calibrate", "--device", "model:h200", "--csv", path("times.csv")}).err.find("'schedule'"),
            std::string::npos);
}

// Somebody who never tuned anything, with the tables of this build.
TEST_F(ModelCommand, AFreshUserIsServedFromTheShippedTables) {
  const std::map<std::string, std::string> with_tables = {{"HEADNORM_TABLES", ""}};
  const json gpu = answer({"explain", "--preset", "wide-vit-4096", "--device", "model:h200"}, with_tables);
  EXPECT_EQ(gpu["served"], "predicted");
  EXPECT_EQ(gpu["from"], "predicted by a cost model for NVIDIA H200 at 12608 rows, shipped with headnorm");
  const json other = answer({"explain", "--preset", "wide-vit-4096", "--device", "model:h100"}, with_tables);
  EXPECT_EQ(other["served"], "other_device");
  EXPECT_EQ(other["schedule"], gpu["schedule"]);
  const json host = answer({"explain", "--preset", "wide-vit-4096", "--target", "x86-64-v3"}, with_tables);
  EXPECT_EQ(host["served"], "other_device");
  EXPECT_NE(host["from"].get<std::string>().find("shipped with headnorm"), std::string::npos);
  EXPECT_EQ(answer({"explain", "--preset", "wide-vit-4096", "--device", "model:h200"})["served"], "default") << "without them";
  const json checks = answer({"doctor"}, with_tables)["checks"];
  EXPECT_TRUE(std::any_of(checks.begin(), checks.end(),
                          [](const json& check) { return check["name"] == "tables" && check["state"] == "ok"; }));
}

}  // namespace
}  // namespace headnorm::test
