// Right invocations of the verbs but explain and generate: exit codes, and the keys of the documents.
#include <set>
#include <thread>

#include "tests/error/answers.h"
#include "tests/support/database_samples.h"

namespace headnorm::test {
namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0, column = 0;
  for (char c : text) {
    column = c == '\n' ? 0 : column + 1;
    widest = std::max(widest, column);
  }
  return widest;
}

TEST(Command, SaysItsVersion) {
  const CommandResult text = Command().run({"--version"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_TRUE(text.out.starts_with("headnorm "));
  EXPECT_EQ(text.out, "headnorm " + answer(Command(), {"--version"})["headnorm"].get<std::string>() + "\n");
}

TEST(Command, HelpsOnEveryVerb) {
  const CommandResult all = Command().run({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  for (const char* verb :
       {"presets", "devices", "doctor", "generate", "explain", "tune", "run", "verify", "calibrate", "completion", "db"}) {
    EXPECT_NE(all.out.find(verb), std::string::npos) << verb;
    const CommandResult help = Command().run({verb, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_NE(help.out.find("--json"), std::string::npos) << help.out;
    EXPECT_NE(help.out.find(std::string("headnorm ") + verb), std::string::npos) << "an example of " << verb;
  }
}

TEST(Presets, HaveEveryKeyAndFitTheScreen) {
  const json document = answer(Command(), {"presets"});
  std::set<std::string> names;
  for (const json& preset : document["presets"]) {
    expect_keys(preset, {"name", "width", "head_size", "heads", "depth", "rows", "dtype", "source"});
    EXPECT_EQ(preset["width"], preset["head_size"].get<int>() * preset["heads"].get<int>()) << preset["name"];
    EXPECT_TRUE(names.insert(preset["name"]).second) << preset["name"];
  }
  for (const char* name : {"vit-b-16",
                           "vit-l-16",
                           "vit-h-14",
                           "deit3-l-16",
                           "dinov3-7b",
                           "siglip-so400m-14",
                           "dit-xl-2",
                           "sd3.5-large",
                           "flux.1",
                           "llama-3-8b",
                           "qwen3-8b",
                           "deepseek-v3",
                           "gemma3-27b",
                           "wide-vit-1024",
                           "wide-vit-2048",
                           "wide-vit-4096",
                           "ablation-rmsnorm",
                           "ablation-layernorm",
                           "ablation-mh-layernorm",
                           "ablation-mh-rmsnorm-shared",
                           "ablation-d512",
                           "ablation-d256",
                           "ablation-d64"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_LE(widest_line(Command().run({"presets"}).out), 100u);
}

TEST(Presets, AreSelectedByPartOfTheirName) {
  const json document = answer(Command(), {"presets", "qwen3"});
  EXPECT_EQ(document["presets"].size(), 8u);
}

TEST(Devices, IncludeTheHost) {
  const json document = answer(Command(), {"devices", "--threads", "1"});
  ASSERT_FALSE(document["devices"].empty());
  expect_keys(document["devices"][0], {"name", "kind", "target", "units"});
  EXPECT_EQ(document["devices"][0]["kind"], "host");
  EXPECT_EQ(document["devices"][0]["units"], 1);
}

TEST(Doctor, NamesTheDatabaseThatTheEnvironmentGives) {
  auto database_line = [](const std::map<std::string, std::string>& variables) {
    const Command command;
    const CommandResult result = command.run({"doctor", "--json"}, variables);
    const json document = result.json();
    for (const json& check : document["checks"]) {
      expect_keys(check, {"name", "state", "detail", "remedy"});
      if (check["name"] != "database") continue;
      std::string detail = check["detail"];
      if (const std::size_t at = detail.find(command.home().string()); at != std::string::npos)
        detail.replace(at, command.home().string().size(), "HOME");
      return detail;
    }
    return std::string("no line");
  };
  EXPECT_TRUE(database_line({}).starts_with("HOME/.cache/headnorm"));
  EXPECT_TRUE(database_line({{"XDG_CACHE_HOME", "/nonexistent/cache"}}).starts_with("/nonexistent/cache/headnorm"));
  EXPECT_TRUE(database_line({{"HEADNORM_DB", "/nonexistent/db"}, {"XDG_CACHE_HOME", "/x"}}).starts_with("/nonexistent/db"));
  const CommandResult homeless = Command().run({"doctor"}, {{"HOME", ""}});
  EXPECT_EQ(homeless.exit_code, 1);
  EXPECT_NE(homeless.err.find("database"), std::string::npos);
}

TEST(Verify, StreamingStoresOfABf16OutputBesideAnF32OneAreRight) {
  const Command command;
  const json document =
      answer(command, {"verify", "--spec", "width=208,head_size=104,x=f32,y=bf16,weight=channel:bf16,eps=1e-06,residual=add:f32",
                       "--schedule", "form=split,heads=2,store=nt", "--rows", "1,7"});
  EXPECT_EQ(document["cases"], 2);
  EXPECT_EQ(document["failed"], 0);
}

TEST(Output, AValueIsNoFlag) {
  const Command command;
  const CommandResult result = command.run({"--json", "presets", "--json=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.json()["error"]["message"], "--json is a flag, and '--json=1' gives it a value");
  for (const Words& words : {Words{"run", "--input", "--json"}, Words{"db", "show", "--db", "--json"}}) {
    const CommandResult text = command.run(words);
    EXPECT_NE(text.exit_code, 0);
    EXPECT_EQ(text.out, "");
    EXPECT_TRUE(text.err.starts_with("error: ")) << text.err;
  }
}

TEST(Output, NamesThatAreNoUtf8LeaveTheDocumentValid) {
  const Command command;
  const std::string file = command.home() / "k\xff\xfe.txt";
  const json document = answer(command, {"generate", "--width", "512", "--emit", "program", "-o", file});
  EXPECT_EQ(document["files"].size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Output, AFullDiskIsAnEnvironmentError) {
  const CommandResult result = Command().run({"presets"}, {}, "/dev/full");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("standard output cannot be written"), std::string::npos);
}

TEST(Output, AReaderThatStopsReadingIsNoFailure) {
  const Command command;
  const std::string pipe = command.home() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // The reader opens the pipe, so that the writer starts, and leaves at once.
  std::thread reader([&] { ::close(::open(pipe.c_str(), O_RDONLY)); });
  const CommandResult result = command.run({"presets", "--json"}, {}, pipe);
  reader.join();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Db, ChecksAndListsDamage) {
  const Command command;
  const std::filesystem::path db = command.home() / "db";
  std::filesystem::create_directories(db / "records");
  EXPECT_TRUE(answer(command, {"db", "list", "--db", db})["records"].empty());
  EXPECT_EQ(answer(command, {"db", "check", "--db", db})["damaged"], json::array());
  write_whole(db / "records" / "0123456789abcdef0123456789abcdef.json", "{\"format\": 1");
  const CommandResult check = command.run({"db", "check", "--db", db, "--json"});
  EXPECT_EQ(check.exit_code, 1);
  const json document = check.json();
  EXPECT_EQ(document["ok"], false);
  ASSERT_EQ(document["damaged"].size(), 1u);
  expect_keys(document["damaged"][0], {"file", "reason"});
  EXPECT_NE(command.run({"db", "check", "--db", db}).out.find(": 0 records, 1 damaged file\n"), std::string::npos);
  write_whole(db / "pending.json", "{");
  const json pending = command.run({"db", "check", "--db", db, "--json"}).json()["damaged"];
  ASSERT_EQ(pending.size(), 2u);
  EXPECT_EQ(pending[1]["file"], "pending.json");
  EXPECT_NE(pending[1]["reason"].get<std::string>().find("delete it"), std::string::npos) << pending;
  EXPECT_EQ(command.run({"db", "show", "4567", "--db", db}).exit_code, 2);
  const CommandResult show = command.run({"db", "show", "0123", "--db", db});
  EXPECT_EQ(show.exit_code, 1);
  EXPECT_NE(show.err.find("0123456789abcdef0123456789abcdef.json is damaged: "), std::string::npos) << show.err;
}

// What is left of a table would have a digest that another process could take for that of the whole.
TEST(Db, ThereIsNoDigestOfADamagedTable) {
  const Command command;
  const std::filesystem::path db = command.home() / "db";
  ASSERT_TRUE(Database::open(db).value()->publish(sample_record()).ok());
  EXPECT_EQ(answer(command, {"db", "digest", "--db", db})["damaged"], json::array());
  write_whole(db / "records" / "0123456789abcdef0123456789abcdef.json", "{\"format\": 1");
  const CommandResult result = command.run({"db", "digest", "--db", db, "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const json document = result.json();
  EXPECT_EQ(document["ok"], false);
  EXPECT_FALSE(document.contains("digest")) << document;
  EXPECT_EQ(document["records"], 1);
  ASSERT_EQ(document["damaged"].size(), 1u);
  EXPECT_NE(document["error"]["remedy"].get<std::string>().find("headnorm db check"), std::string::npos) << document;
  const CommandResult text = command.run({"db", "digest", "--db", db});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_EQ(text.out, "");
}

TEST(Db, DigestsAndCollects) {
  const Command command;
  const std::filesystem::path db = command.home() / "db", copy = command.home() / "copy";
  {
    const std::unique_ptr<Database> database = Database::open(db).value();
    const Record record = sample_record();
    ASSERT_TRUE(database->store_kernel(sample_artifact(sample_plan(record.spec, record.device))).ok());
    ASSERT_TRUE(database->publish(record).ok());
  }
  std::filesystem::create_directories(copy);
  std::filesystem::copy(db / "records", copy / "records");
  const json digest = answer(command, {"db", "digest", "--db", db});
  EXPECT_EQ(digest["records"], 1);
  EXPECT_EQ(digest["digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(answer(command, {"db", "digest", "--db", copy})["digest"], digest["digest"]);
  EXPECT_EQ(command.run({"db", "digest", "--db", db}).out, digest["digest"].get<std::string>() + "\n");

  const json young = answer(command, {"db", "gc", "--limit", "0", "--db", db});
  EXPECT_EQ(young["limit_bytes"], 0);
  EXPECT_EQ(young["removed"]["kernels"], 0) << "they are younger than an hour";
  const json collected = answer(command, {"db", "gc", "--limit", "1.5kB", "--grace", "0", "--db", db});
  EXPECT_EQ(collected["limit_bytes"], 1500);
  EXPECT_EQ(collected["kept"]["kernels"], 1);
  const json emptied = answer(command, {"db", "gc", "--limit", "0", "--grace", "0s", "--db", db});
  EXPECT_EQ(emptied["removed"]["kernels"], 1);
  EXPECT_EQ(emptied["kept"]["bytes"], 0);
  EXPECT_TRUE(std::filesystem::is_empty(db / "kernels"));
  EXPECT_EQ(answer(command, {"db", "digest", "--db", db})["digest"], digest["digest"]) << "records stay";
}

}  // namespace
}  // namespace headnorm::test
