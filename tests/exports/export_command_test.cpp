// export and the merging parts of db as a user runs them: files, exit codes, remedies; the header compiled and asked; a program
// that has only exported files runs a kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "generator/export/format.h"
#include "tests/exports/samples.h"
#include "tests/support/command.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

using test::Command;
using test::CommandResult;
using test::entries_of;
using test::read_whole;
using test::sample_rows;
using test::TemporaryDirectory;
using test::write_whole;

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kAll = "measured,predicted,emulated";

class ExportCommand : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE((*Database::open(db()))->merge(entries_of(sample_rows())).ok()); }

  fs::path db() const { return folder_.path() / "db"; }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }

  CommandResult run(const Words& words) const { return command_.run(words); }
  CommandResult export_as(const std::string& format, const std::string& output, const Words& more = {}) const {
    Words words = {"export", "--format", format, "--db", db().string(), "-o", output};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  // A failure with all that it must have, and nothing written.
  void expect_error(const CommandResult& result, int exit_code, const std::string& part) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("remedy: "), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(at("out"))) << "something was written";
  }

  static std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory folder_;
  Command command_;
};

TEST_F(ExportCommand, EveryFormatIsWrittenAndWrittenAgainWithTheSameBytes) {
  for (const exports::Format& format : exports::formats()) {
    const std::string first = at(std::string(format.name) + "1/"), second = at(std::string(format.name) + "2/");
    const CommandResult result = export_as(format.name, first, {"--evidence", kAll, "--json"});
    ASSERT_EQ(result.exit_code, 0) << format.name << result.out << result.err;
    const nlohmann::json document = result.json();
    EXPECT_EQ(document["verb"], "export");
    EXPECT_EQ(document["files"].size(), names_in(first).size());
    ASSERT_EQ(export_as(format.name, second, {"--evidence", kAll}).exit_code, 0);
    EXPECT_EQ(names_in(first), names_in(second));
    for (const std::string& name : names_in(first)) {
      EXPECT_EQ(read_whole(fs::path(first) / name), read_whole(fs::path(second) / name)) << name;
      EXPECT_EQ(name.find(' '), std::string::npos);
    }
    // Over what is there.
    EXPECT_EQ(export_as(format.name, first, {"--evidence", kAll}).exit_code, 0);
    EXPECT_EQ(names_in(first), names_in(second));
  }
}

TEST_F(ExportCommand, OneFileHasTheNameThatTheUserGives) {
  const CommandResult result = export_as("kernel-tuner-cache", at("my.json"), {"--device", "host"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(fs::exists(at("my.json")) && fs::exists(at("my.json.meta.json")));
  ASSERT_EQ(export_as("t4", at("my.json.gz"), {"--device", "host", "--gzip"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(at("my.json.gz")));
  EXPECT_EQ(read_whole(at("my.json.gz")).substr(0, 2), "\x1f\x8b");
}

TEST_F(ExportCommand, SelectsByDeviceKernelAndEvidence) {
  const auto records = [&](const Words& more) {
    Words words = {"--json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = export_as("csv", at("selected.csv"), words);
    EXPECT_EQ(result.exit_code, 0) << result.out;
    return result.exit_code == 0 ? result.json()["records"].size() : 0;
  };
  EXPECT_EQ(records({}), 5u) << "measured alone";
  EXPECT_EQ(records({"--evidence", kAll}), 7u);
  EXPECT_EQ(records({"--evidence", "emulated"}), 1u);
  EXPECT_EQ(records({"--device", "host"}), 1u);
  EXPECT_EQ(records({"--device", "cuda:0"}), 4u);
  EXPECT_EQ(records({"--device", test::kHostileName}), 1u);
  EXPECT_EQ(records({"--preset", "wide-vit-4096"}), 4u);
  EXPECT_EQ(records({"--preset", "wide-vit-4096", "--residual", "add"}), 1u);
  EXPECT_EQ(records({"--spec", test::kResidualSpec}), 1u);
}

TEST_F(ExportCommand, DamagedRecordsAreLeftOutAndNamed) {
  const CommandResult whole = export_as("csv", at("whole.csv"), {"--json"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(whole.json()["damaged"], nlohmann::json::array());
  const std::string id = whole.json()["records"][0]["record"];
  write_whole(db() / "records" / (id + ".json"), "{");
  const CommandResult rest = export_as("csv", at("rest.csv"), {"--json"});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_NE(rest.err.find("warning: "), std::string::npos) << rest.err;
  const nlohmann::json document = rest.json();
  EXPECT_EQ(document["records"].size() + 1, whole.json()["records"].size());
  ASSERT_EQ(document["damaged"].size(), 1u);
  EXPECT_EQ(document["damaged"][0]["file"], "records/" + id + ".json");
}

TEST_F(ExportCommand, ErrorsNameTheValueAndTheRemedy) {
  expect_error(export_as("wisdon", at("out")), 2, "'wisdon'");
  expect_error(run({"export", "--db", db().string(), "-o", at("out")}), 2, "--format is missing");
  expect_error(run({"export", "--db", db().string(), "--format", "csv"}), 2, "-o is missing");
  expect_error(export_as("csv", at("out"), {"--device", "cuda:9"}), 2, "'cuda:9'");
  expect_error(export_as("csv", at("out"), {"--width", "768"}), 2, "width=768");
  expect_error(export_as("csv", at("out"), {"--evidence", "guessed"}), 2, "'guessed'");
  expect_error(export_as("csv", at("out"), {"--evidence", "predicted", "--device", "host"}), 2, "is predicted");
  expect_error(export_as("csv", at("out"), {"--gzip"}), 2, "--gzip");
  expect_error(export_as("t4", at("plain.json"), {"--device", "host", "--gzip"}), 2, ".gz");
  expect_error(export_as("wisdom", at("out"), {"--device", "host"}), 2, "for GPUs");
  expect_error(run({"export", "--format", "csv", "--db", at("none"), "-o", at("out")}), 3, "no database");
  fs::create_directory(at("empty"));
  expect_error(run({"export", "--format", "csv", "--db", at("empty"), "-o", at("out")}), 2, "no records");
  expect_error(export_as("csv", at("missing/out")), 3, "missing/out");
  expect_error(export_as("t4", "/proc/no/out"), 3, "/proc/no/out");
  write_whole(at("file"), "kept");
  expect_error(export_as("vllm", at("file")), 3, "is not a directory");
  EXPECT_EQ(read_whole(at("file")), "kept");
}

TEST_F(ExportCommand, TwoDevicesThatWouldShareAFileAreAnError) {
  const auto more = entries_of({test::searched_row(test::spec_of(test::kPlainSpec), 64, test::gpu_device("NVIDIA H200", 66), 5)});
  ASSERT_TRUE((*Database::open(db()))->merge(more).ok());
  expect_error(export_as("vllm", at("out")), 2, "share the file");
}

// ---- the header ----------------------------------------------------------------------------------------------------------------

std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) safe += c == '\'' ? "'\\''" : std::string(1, c);
  return safe + "'";
}

int shell(const std::string& line) {
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(ExportCommand, HeaderCompilesCleanlyAndAnswers) {
  ASSERT_EQ(export_as("header", at("headnorm_tuned.h"), {"--evidence", kAll}).exit_code, 0);
  const std::string strict = " -Wall -Wextra -Wpedantic -Werror -I" + quoted(folder_.path().string());
  const std::vector<std::pair<std::string, std::string>> languages = {
      {HEADNORM_CC, "-std=c99"}, {HEADNORM_CC, "-std=c11"}, {HEADNORM_CXX, "-std=c++17 -x c++"}};
  for (const auto& [compiler, standard] : languages) {
    const std::string program = at("header_user");
    ASSERT_EQ(shell(compiler + " " + standard + strict + " -o " + quoted(program) + " " HEADNORM_EXPORT_SOURCES "/header_user.c"),
              0)
        << standard;
    const auto ask = [&](const std::string& device, int units, const std::string& spec, const std::string& rows) {
      EXPECT_EQ(shell(quoted(program) + " " + quoted(device) + " " + std::to_string(units) + " " + quoted(spec) + " " + rows +
                      " > " + quoted(at("answer"))),
                0);
      return read_whole(at("answer"));
    };
    EXPECT_EQ(ask("NVIDIA H200", 132, test::kPlainSpec, "4096").substr(0, 13), "4096 1 lanes=");
    EXPECT_EQ(ask("NVIDIA H200", 132, test::kPlainSpec, "1").substr(0, 4), "1 1 ");
    EXPECT_EQ(ask("NVIDIA H200", 132, test::kPlainSpec, "63").substr(0, 4), "1 0 ") << "63 is nearer to 1 than to 4096, in ratio";
    EXPECT_EQ(ask("NVIDIA H200", 132, test::kPlainSpec, "64").substr(0, 4), "1 0 ") << "of two equally near the smaller";
    EXPECT_EQ(ask("NVIDIA H200", 132, test::kPlainSpec, "65").substr(0, 7), "4096 0 ");
    EXPECT_EQ(ask("NVIDIA H200", 132, test::kResidualSpec, "1").substr(0, 7), "4096 0 ");
    EXPECT_EQ(ask(test::kHostileName, 7, test::kPlainSpec, "4096").substr(0, 7), "4096 1 ");
    EXPECT_EQ(ask("NVIDIA H200", 66, test::kPlainSpec, "4096"), "none 0\n") << "another device";
    EXPECT_EQ(ask("NVIDIA H100", 132, test::kPlainSpec, "4096"), "none 0\n");
    EXPECT_EQ(ask("NVIDIA H200", 132, test::kEpsSpec, "4096"), "none 0\n");
    EXPECT_EQ(ask("NVIDIA H200", 132, test::kPlainSpec, "0"), "none 0\n");
  }
}

// Nothing of ours but the header, the PTX and its launch file; the driver is the emulator's.
TEST_F(ExportCommand, ProgramOfExportedFilesAloneRunsTheKernel) {
  const std::string tuned = at("tuned"), ptx = at("norm.ptx");
  const CommandResult search = run({"tune", "--width", "192", "--head-size", "48", "--dtype", "f32", "--rows", "10", "--device",
                                    "emulator:h200", "--search", "random", "--budget", "2s", "--db", tuned, "--json"});
  ASSERT_EQ(search.exit_code, 0) << search.out << search.err;
  const nlohmann::json result = search.json()["results"][0];
  const std::string spec = result["spec"], schedule = result["schedule"];
  ASSERT_EQ(run({"export", "--format", "header", "--evidence", "emulated", "--db", tuned, "-o", at("headnorm_tuned.h")}).exit_code,
            0);
  ASSERT_EQ(
      run({"generate", "--spec", spec, "--schedule", schedule, "--target", result["target"], "--emit", "ptx", "-o", ptx}).exit_code,
      0);
  const std::string program = at("launch_program");
  ASSERT_EQ(shell(std::string(HEADNORM_CC) + " -std=c99 -Wall -Wextra -Werror -I" + quoted(folder_.path().string()) + " -o " +
                  quoted(program) + " " HEADNORM_EXPORT_SOURCES "/launch_program.c -ldl -lm"),
            0);
  const std::string line = "HEADNORM_EMULATOR_DEVICES=h200 " + quoted(program) + " " HEADNORM_EMULATOR_DRIVER " " + quoted(ptx) +
                           " " + quoted(ptx + ".launch.json") + " " + quoted(spec);
  EXPECT_EQ(shell(line + " 10"), 0);
  EXPECT_NE(shell(line + " 11 2> /dev/null"), 0) << "no row of that count";
}

// ---- merge, import, diff -------------------------------------------------------------------------------------------------------

TEST_F(ExportCommand, ExportAndImportGoRound) {
  for (const std::string format : {"csv", "kernel-tuner-cache", "t4"}) {
    const std::string place = at("round-" + format);
    ASSERT_EQ(export_as(format, place + "/", {"--evidence", kAll}).exit_code, 0);
    Words words = {"db", "import", "--format", format, "--db", place + ".db", "--json"};
    for (const std::string& name : names_in(place)) {
      if (!name.ends_with(".meta.json")) words.push_back((fs::path(place) / name).string());
    }
    const CommandResult imported = run(words);
    ASSERT_EQ(imported.exit_code, 0) << imported.out;
    EXPECT_EQ(imported.json()["added"], 7) << format;
    const CommandResult difference = run({"db", "diff", db().string(), place + ".db", "--json"});
    ASSERT_EQ(difference.exit_code, 0);
    EXPECT_TRUE(difference.json()["equal"].get<bool>()) << format << difference.out;
    EXPECT_EQ(run(words).json()["kept"], 7) << format;
  }
}

TEST_F(ExportCommand, CompressedFilesAreImportedToo) {
  ASSERT_EQ(export_as("t4", at("gz/"), {"--device", "host", "--gzip"}).exit_code, 0);
  for (const std::string& name : names_in(at("gz"))) {
    if (!name.ends_with(".gz")) continue;
    EXPECT_EQ(run({"db", "import", "--format", "t4", "--db", at("unpacked"), at("gz/" + name)}).exit_code, 0);
  }
  EXPECT_EQ(run({"db", "list", "--db", at("unpacked"), "--json"}).json()["records"].size(), 1u);
}

TEST_F(ExportCommand, MergeTakesAllOrNothing) {
  const std::string other = at("other"), target = at("target");
  const auto rows = sample_rows();
  ASSERT_TRUE((*Database::open(other))->merge(entries_of({rows[0], rows[1]})).ok());
  CommandResult merged = run({"db", "merge", other, db().string(), "--db", target, "--json"});
  ASSERT_EQ(merged.exit_code, 0) << merged.out;
  EXPECT_EQ(merged.json()["added"], 7);
  EXPECT_EQ(merged.json()["kept"], 2);
  EXPECT_TRUE(run({"db", "diff", target, db().string(), "--json"}).json()["equal"].get<bool>());
  // One damaged record, and nothing is taken from anywhere.
  write_whole(fs::path(other) / "records" / (rows[0].record.id + ".json"), "{}");
  merged = run({"db", "merge", db().string(), other, "--db", at("nothing")});
  EXPECT_EQ(merged.exit_code, 2);
  EXPECT_NE(merged.err.find(rows[0].record.id), std::string::npos) << merged.err;
  EXPECT_FALSE(fs::exists(at("nothing")));
}

TEST_F(ExportCommand, AMergeThatWasStoppedIsListedUntilItIsFinished) {
  EXPECT_EQ(run({"db", "check", "--db", db().string(), "--json"}).json()["unfinished"], nlohmann::json::array());
  write_whole(db() / "pending.json", pending_to_json(entries_of(sample_rows())));
  const CommandResult check = run({"db", "check", "--db", db().string(), "--json"});
  EXPECT_EQ(check.exit_code, 0) << check.out;
  const nlohmann::json document = check.json();
  EXPECT_EQ(document["damaged"], nlohmann::json::array());
  ASSERT_EQ(document["unfinished"].size(), 1u);
  EXPECT_EQ(document["unfinished"][0]["file"], "pending.json");
  EXPECT_NE(document["unfinished"][0]["reason"].get<std::string>().find("headnorm db merge"), std::string::npos);
  EXPECT_NE(run({"db", "check", "--db", db().string()}).out.find("  pending.json: "), std::string::npos);
  fs::create_directory(at("empty"));
  ASSERT_EQ(run({"db", "merge", at("empty"), "--db", db().string()}).exit_code, 0);
  EXPECT_EQ(run({"db", "check", "--db", db().string(), "--json"}).json()["unfinished"], nlohmann::json::array());
}

TEST_F(ExportCommand, MergeAndImportErrorsNameTheValueAndTheRemedy) {
  const std::string target = at("target");
  const auto refused = [&](const Words& words, int exit_code, const std::string& part) {
    expect_error(run(words), exit_code, part);
    const CommandResult listed = run({"db", "list", "--db", target, "--json"});
    EXPECT_TRUE(listed.exit_code == 3 || listed.json()["records"].empty());
  };
  refused({"db", "merge", "--db", target}, 2, "no database");
  refused({"db", "merge", at("none"), "--db", target}, 3, "none");
  refused({"db", "import", "--db", target, "x"}, 2, "no --format");
  refused({"db", "import", "--format", "csv", "--db", target}, 2, "no file");
  refused({"db", "import", "--format", "wisdom", "--db", target, "x"}, 2, "'wisdom'");
  refused({"db", "import", "--format", "csv", "--db", target, at("none.csv")}, 3, "none.csv");
  write_whole(at("bad.csv"), "a,b\n1,2\n");
  refused({"db", "import", "--format", "csv", "--db", target, at("bad.csv")}, 2, "bad.csv");
  write_whole(at("bad.json"), "{}");
  refused({"db", "import", "--format", "t4", "--db", target, at("bad.json")}, 3, "bad.json.meta.json");
  refused({"db", "diff", db().string()}, 2, "not two");
}

}  // namespace
}  // namespace headnorm
