// The verbs on emulated GPUs: the whole path of a GPU, without one.
#include <algorithm>
#include <set>

#include "cli/npy.h"
#include "core/dtype.h"
#include "generator/generator.h"
#include "runtime/database/database.h"
#include "tests/support/command.h"

namespace headnorm::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kModels[] = {"a100", "rtx3090", "l40s", "h200", "b200", "rtx5090"};

class EmulatorCommand : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return command_.home() / name; }

  json answer(Words arguments) const {
    arguments.push_back("--json");
    const CommandResult result = command_.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return result.json();
  }

  // One row of two heads of 64: ones, and hundreds.
  void write_input() const {
    std::string file = cli::npy_header(Dtype::f32, {1, 128});
    const std::size_t begin = file.size();
    file.resize(begin + 128 * sizeof(float));
    for (std::size_t i = 0; i < 128; ++i)
      store_element(file.data() + begin + i * sizeof(float), Dtype::f32, i < 64 ? 1.0f : 100.0f);
    write_whole(path("x.npy"), file);
  }
  Words run_words(const std::string& device) const {
    return {"run",     "--eps",       "0",        "--head-size", "64",   "--device", device,
            "--input", path("x.npy"), "--output", path("y.npy"), "--db", path("db")};
  }
  std::vector<float> output() const {
    const std::string file = read_whole(path("y.npy"));
    const auto header = cli::parse_npy(file);
    EXPECT_TRUE(header.ok());
    std::vector<float> values(header->data_bytes / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = load_element(file.data() + header->data_offset + i * sizeof(float), header->dtype);
    return values;
  }

  Command command_;
};

// Row 29 has an element whose inner cast lies at a tie that only f32 sees.
TEST_F(EmulatorCommand, VerifyTakesEitherNeighbourOfAnInnerCastAtATie) {
  const json document = answer({"verify", "--spec", "width=1024,head_size=256,rounding=llama", "--rows", "30", "--schedule",
                                "lanes=32", "--device", "emulator:h200"});
  EXPECT_EQ(document["cases"], 1);
  EXPECT_EQ(document["failed"], 0) << document["failures"];
}

TEST_F(EmulatorCommand, DevicesAndDoctorNameTheModels) {
  std::set<std::string> ids;
  const json devices = answer({"devices"})["devices"];
  for (const json& device : devices) {
    if (device["kind"] != "emulator") continue;
    ids.insert(device["id"]);
    EXPECT_NE(device["name"].get<std::string>().find("(emulated)"), std::string::npos);
  }
  EXPECT_EQ(ids, (std::set<std::string>{"emulator:a100", "emulator:b200", "emulator:h200", "emulator:l40s", "emulator:rtx3090",
                                        "emulator:rtx5090"}));
  const json checks = answer({"doctor"})["checks"];
  const auto found = std::ranges::find_if(checks, [](const json& check) { return check["name"] == "emulator"; });
  ASSERT_NE(found, checks.end());
  EXPECT_EQ((*found)["state"], "ok");
}

TEST_F(EmulatorCommand, VerifyIsRightOnEveryModel) {
  for (const char* model : kModels) {
    const json document = answer({"verify", "--width", "384", "--head-size", "48", "--rows", "1,5", "--residual", "add", "--gate",
                                  "seednorm", "--device", std::string("emulator:") + model});
    EXPECT_GE(document["cases"].get<int>(), 10) << model;
    EXPECT_EQ(document["failed"], 0) << document.dump(2);
    for (const char* choice : {"residency", "grid"}) EXPECT_TRUE(document["coverage"].contains(choice)) << choice;
  }
}

TEST_F(EmulatorCommand, RunIsRightOnEveryModel) {
  write_input();
  for (const char* model : kModels) {
    EXPECT_EQ(answer(run_words(std::string("emulator:") + model))["served"], "default");
    EXPECT_EQ(output(), std::vector<float>(128, 1.0f)) << model;
  }
}

// The whole path of tuning: interrupted, resumed, stored with its evidence, and served.
TEST_F(EmulatorCommand, TuneIsADryRunThatResumesAndIsServed) {
  const Words tune = {"tune",     "--width",  "128",    "--head-size", "64",       "--dtype",  "f32",
                      "--eps",    "0",        "--rows", "1",           "--device", "emulator", "--db",
                      path("db"), "--policy", "warm",   "--search",    "random",   "--json"};
  const std::filesystem::path journals = std::filesystem::path(path("db")) / "journal";
  const auto finished = [&] {
    std::error_code error;
    std::size_t lines = 0;
    for (const auto& file : std::filesystem::directory_iterator(journals, error)) {
      const std::string text = read_whole(file.path());
      lines += static_cast<std::size_t>(std::ranges::count(text, '\n'));
    }
    return lines;
  };
  const CommandResult interrupted = command_.interrupt_when(tune, [&] { return finished() >= 8; });
  EXPECT_EQ(interrupted.exit_code, 75) << interrupted.out << interrupted.err;
  ASSERT_GE(finished(), 8u) << "what was found out stays";

  Words resumed = tune;
  resumed.insert(resumed.end(), {"--budget", "3s"});
  const CommandResult ended = command_.run(resumed);
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  const json result = ended.json()["results"][0];
  EXPECT_EQ(result["evidence"], "emulated");
  EXPECT_EQ(result["device"], "emulator:h200");
  EXPECT_GE(result["candidates"]["measured"].get<int>(), 1);
  for (const auto& [kind, count] : result["candidates"]["rejected"].items()) EXPECT_EQ(kind, "illegal") << result.dump(2);
  EXPECT_EQ(finished(), 0u) << "a search that ended leaves no journal";

  write_input();
  const json served = answer(run_words("emulator"));
  EXPECT_EQ(served["served"], "predicted") << "never taken for measured";
  EXPECT_EQ(served["record"], result["record"]);
  EXPECT_EQ(served["schedule"], result["schedule"]);
  EXPECT_EQ(output(), std::vector<float>(128, 1.0f));
  Words without_compiler = run_words("emulator");
  without_compiler.push_back("--no-jit");
  EXPECT_EQ(answer(without_compiler)["record"], result["record"]);
}

TEST_F(EmulatorCommand, AFaultOfAKernelReachesTheUserInWords) {
  write_input();
  const KernelSpec spec = *parse_spec("width=128,head_size=64,x=f32,y=f32,weight=channel:f32,eps=0");
  const Target target = *parse_target("sm_90+ptx80");  // the newest PTX that the emulated driver takes
  Artifact artifact = *make_llvm_backend()->compile(*make_plan(spec, default_schedule(spec, target), target));
  artifact.bytes.insert(artifact.bytes.find("ld.global"), "trap;\n\t");
  {
    const auto database = Database::open(path("db"));
    ASSERT_TRUE(database.ok()) << database.error().message;
    ASSERT_TRUE((*database)->store_kernel(artifact).ok());
  }
  const CommandResult result = command_.run(run_words("emulator:h200"));
  EXPECT_EQ(result.exit_code, 3);
  for (const char* word : {"CUDA_ERROR_LAUNCH_FAILED", "trap", "line ", "thread (", artifact.entry.c_str()})
    EXPECT_NE(result.err.find(word), std::string::npos) << word << " in " << result.err;
}

TEST_F(EmulatorCommand, CountersOfEveryKeyAndNoMoreTrafficThanTheFormula) {
  const json presets = answer({"presets"})["presets"];
  for (const json& preset : presets) {
    if (!preset["supported"]) continue;
    const std::string name = preset["name"];
    for (const char* target : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
      const json counters = answer({"explain", "--preset", name, "--target", target, "--rows", "8", "--counters"})["counters"];
      for (const char* key : {"device", "rows", "blocks", "instructions", "loads", "stores", "minimum_bytes", "traffic_ratio",
                              "shared_accesses", "bank_conflicts", "barriers"})
        EXPECT_TRUE(counters.contains(key)) << key;
      EXPECT_EQ(counters["rows"], 8);
      EXPECT_NEAR(counters["traffic_ratio"].get<double>(), 1, 0.02) << name << " " << target;
      EXPECT_GE(counters["loads"]["requested_bytes"], counters["loads"]["footprint_bytes"]) << name << " " << target;
      EXPECT_GT(counters["instructions"]["global"]["threads_per_row"].get<double>(), 0);
    }
  }
}

TEST_F(EmulatorCommand, CountersOfADeviceAreOfItsTarget) {
  const json document = answer({"explain", "--width", "128", "--device", "emulator:b200"});
  EXPECT_EQ(document["target"], "sm_100");
  EXPECT_EQ(document["counters"]["device"], "b200");
  const json older = answer({"explain", "--width", "128", "--device", "emulator:b200", "--target", "sm_80"});
  EXPECT_EQ(older["target"], "sm_80");
  EXPECT_EQ(older["counters"]["device"], "b200");
  const CommandResult result = command_.run({"explain", "--width", "128", "--device", "emulator:a100", "--target", "sm_90"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("emulator:h200"), std::string::npos) << result.err;
}

TEST_F(EmulatorCommand, CountersAreOfGpuTargets) {
  const CommandResult result = command_.run({"explain", "--width", "128", "--target", "x86-64-v3", "--counters"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("x86-64-v3"), std::string::npos) << result.err;
  const CommandResult text = command_.run({"explain", "--width", "128", "--target", "sm_90", "--counters"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("of the least"), std::string::npos) << text.out;
}

}  // namespace
}  // namespace headnorm::test
