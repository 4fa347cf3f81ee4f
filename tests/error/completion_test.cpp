// Completion: what the script proposes in a real bash is what the options' own definitions hold, and every shell accepts its
// script.
#include <algorithm>
#include <cstdio>

#include "cli/command_words.h"
#include "cli/presets.h"
#include "tests/support/command.h"

namespace headnorm::test {
namespace {

using Words = std::vector<std::string>;

// Runs a shell's own command; its standard output, and -1 where there is no such shell.
int shell(const std::string& command, std::string& out) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return -1;
  char part[4096];
  while (const std::size_t count = std::fread(part, 1, sizeof part, pipe)) out.append(part, count);
  const int status = ::pclose(pipe);
  return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

bool contains(const Words& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

class Completion : public ::testing::Test {
 protected:
  std::string script(const std::string& name) const {
    const CommandResult result = command_.run({"completion", name});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string file = command_.home() / ("completion." + name);
    write_whole(file, result.out);
    return file;
  }

  // What bash is told to propose for a line with the cursor at its end. Words end at blanks, '=' and ':' as readline ends them.
  Words proposals(const std::string& line) const {
    const std::string driver = command_.home() / "driver.bash";
    std::string words;
    for (std::string word; const char c : line + " ") {
      if (c != ' ' && c != '=' && c != ':') {
        word += c;
        continue;
      }
      if (!word.empty()) words += " '" + word + "'";
      if (c != ' ') words += std::string(" '") + c + "'";
      word.clear();
    }
    if (line.ends_with(' ')) words += " ''";
    write_whole(driver, "complete() { :; }\nsource '" + script("bash") + "'\nCOMP_LINE='" + line + "'\nCOMP_POINT=${#COMP_LINE}\n" +
                            "COMP_WORDS=(" + words + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_headnorm\n" +
                            "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
    std::string out;
    EXPECT_EQ(shell("bash '" + driver + "'", out), 0) << out;
    Words list;
    for (std::string word; const char c : out) {
      if (c != '\n') {
        word += c;
        continue;
      }
      if (!word.empty()) list.push_back(word);
      word.clear();
    }
    return list;
  }

  Command command_;
};

class CompletionOfShell : public Completion, public ::testing::WithParamInterface<const char*> {};

TEST_P(CompletionOfShell, IsAccepted) {
  const std::string name = GetParam(), file = script(name);
  std::string out;
  const int status = shell(name + " -n '" + file + "'", out);
  if (status == -1) GTEST_SKIP() << "there is no " << name << " here";
  EXPECT_EQ(status, 0) << out;
}

INSTANTIATE_TEST_SUITE_P(Every, CompletionOfShell, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& shell) { return std::string(shell.param); });

TEST_F(Completion, BashProposesWhatTheDefinitionsHold) {
  const Words verbs = proposals("headnorm ");
  for (const char* verb : {"presets", "explain", "run", "completion", "db"}) EXPECT_TRUE(contains(verbs, verb)) << verb;
  EXPECT_EQ(proposals("headnorm exp"), (Words{"explain", "export"}));
  EXPECT_EQ(proposals("headnorm --json expl"), Words{"explain"});
  EXPECT_EQ(proposals("headnorm db "), (Words{"list", "show", "check", "digest", "gc", "merge", "import", "diff"}));
  EXPECT_EQ(proposals("headnorm completion "), (Words{"bash", "zsh", "fish"}));
  EXPECT_EQ(proposals("headnorm explain --out"), Words{"--out-dtype"});
  EXPECT_EQ(proposals("headnorm explain --sigma "), (Words{"tanh", "sigmoid", "softsign", "hardtanh"}));
  EXPECT_EQ(proposals("headnorm explain --dtype "), (Words{"f32", "f16", "bf16"}));
  EXPECT_EQ(proposals("headnorm explain --preset wide-vit-2"), Words{"wide-vit-2048"});
  EXPECT_EQ(proposals("headnorm tune --preset=wide-vit-2"), Words{"wide-vit-2048"});
  EXPECT_TRUE(contains(proposals("headnorm generate --target "), "x86-64-v4+bf16"));
  EXPECT_EQ(proposals("headnorm tune --device h"), Words{"host"});
  EXPECT_EQ(proposals("headnorm run --device emulator:h"), Words{"h200"});
  EXPECT_TRUE(contains(proposals("headnorm explain --device "), "model:h200"));
  EXPECT_EQ(proposals("headnorm explain --device model:h2"), Words{"h200"}) << "only what stands behind the colon";
  EXPECT_EQ(proposals("headnorm explain --device=model:h2"), Words{"h200"});
  EXPECT_TRUE(contains(proposals("headnorm run --no-jit --dev"), "--device")) << "a flag takes no value";
  EXPECT_TRUE(proposals("headnorm run --input ").empty()) << "names of files are bash's own";
  EXPECT_TRUE(proposals("headnorm explain --width ").empty());
  EXPECT_TRUE(contains(proposals("headnorm explain --preset vit-b-16 --"), "--heads"));
  EXPECT_FALSE(contains(proposals("headnorm explain --"), "--quant")) << "what the help hides";
}

TEST_F(Completion, EveryValueIsTakenByItsOption) {
  for (const cli::CommandWords& verb : cli::command_words()) {
    if (verb.path != "explain") continue;
    for (const cli::OptionWords& option : verb.options) {
      for (const std::string& value : option.values) {
        if (value == "host" && option.names.front() == "--device") continue;  // would measure
        Words words = {"explain", option.names.back(), value};
        if (option.names.back() != "--preset") words.insert(words.end(), {"--width", "512"});
        if (option.names.back() == "--sigma") words.insert(words.end(), {"--gate", "seednorm"});
        if (option.names.back() == "--norm-input") words.insert(words.end(), {"--residual", "add"});
        const CommandResult result = command_.run(words);
        const bool later = result.err.find("this version does not do") != std::string::npos;  // presets of stat layernorm
        EXPECT_TRUE(result.exit_code == 0 || later) << option.names.back() << " " << value << ": " << result.err;
      }
    }
  }
}

// The values that explain does not have. What follows them on the line is refused, but only after them.
TEST_F(Completion, EveryValueOfOtherVerbsIsTakenByItsOption) {
  struct Case {
    Words line;
    const char* option;
    std::string refusal;  // in the error; "": none
  };
  const Case cases[] = {
      {{"tune", "--width", "8", "--rows", "1", "--seed", "-1"}, "--search", "--seed -1"},
      {{"tune", "--width", "8", "--rows", "1", "--seed", "-1"}, "--policy", "--seed -1"},
      {{"verify", "--width", "8", "--seed", "x"}, "--grid", "--seed 'x'"},
      {{"generate", "--width", "8", "--schedule", "fast"}, "--target", "'fast' is not a schedule"},
  };
  const std::vector<cli::CommandWords> verbs = cli::command_words();
  for (const Case& one : cases) {
    const auto verb = std::ranges::find(verbs, one.line.front(), &cli::CommandWords::path);
    ASSERT_NE(verb, verbs.end());
    const auto option = std::ranges::find_if(verb->options, [&](const auto& words) { return contains(words.names, one.option); });
    ASSERT_NE(option, verb->options.end()) << one.option;
    EXPECT_GE(option->values.size(), 2u) << one.option;
    for (const std::string& value : option->values) {
      Words words = one.line;
      words.insert(words.end(), {one.option, value});
      const CommandResult result = command_.run(words);
      EXPECT_NE(result.err.find(one.refusal), std::string::npos) << one.option << " " << value << ": " << result.err;
    }
  }
}

TEST_F(Completion, EveryEmitIsTakenForATargetOfItsKind) {
  const Words emits = proposals("headnorm generate --emit ");
  EXPECT_TRUE(contains(emits, "ptx") && contains(emits, "object"));
  for (const std::string& emit : emits) {
    const std::string target = emit == "ptx" || emit == "cuda" ? "sm_80" : "x86-64";
    const CommandResult result = command_.run({"generate", "--width", "8", "--target", target, "--emit", emit});
    EXPECT_EQ(result.exit_code, 0) << emit << ": " << result.err;
  }
}

TEST_F(Completion, EveryDeviceIsKnown) {
  const Words devices = proposals("headnorm verify --device=");
  for (const char* name : {"host", "cuda:0", "emulator", "emulator:a100", "emulator:rtx3090", "emulator:l40s", "emulator:h200",
                           "emulator:b200", "emulator:rtx5090"})
    EXPECT_TRUE(contains(devices, name)) << name;
  for (const std::string& device : devices) {
    const Words words = {"verify", "--width", "8", "--head-size", "8", "--rows", "1", "--device", device};
    const CommandResult result = command_.run(words);
    // A GPU may be missing here, which is not the name's fault.
    EXPECT_TRUE(result.exit_code == 0 || (device == "cuda:0" && result.exit_code == 3)) << device << ": " << result.err;
  }
}

// A model runs nothing: it is proposed where it predicts.
TEST_F(Completion, ModelsAreProposedToVerbsThatTakeThem) {
  for (const char* verb : {"tune", "explain", "calibrate", "export"})
    EXPECT_TRUE(contains(proposals(std::string("headnorm ") + verb + " --device "), "model:h200")) << verb;
  for (const char* verb : {"run", "verify"}) {
    const Words devices = proposals(std::string("headnorm ") + verb + " --device ");
    EXPECT_TRUE(contains(devices, "host") && contains(devices, "emulator:h200")) << verb;
    EXPECT_TRUE(std::ranges::none_of(devices, [](const std::string& device) { return device.starts_with("model"); })) << verb;
  }
  EXPECT_FALSE(contains(proposals("headnorm calibrate --device "), "host")) << "which is none of what it fits";
}

// What an option says it takes when it refuses a value is what is proposed for it.
TEST_F(Completion, EveryValueOfAChoiceIsProposed) {
  for (const char* option : {"--weight", "--residual", "--gate", "--sigma", "--rounding", "--norm-input", "--mode"}) {
    Words words = {"explain", "--width", "512", option, "bogus", "--json"};
    if (option == std::string("--sigma")) words.insert(words.end(), {"--gate", "seednorm"});
    const std::string listed = command_.run(words).json()["error"]["remedy"];
    ASSERT_TRUE(listed.starts_with("use one of: ")) << option << ": " << listed;
    std::string proposed;
    for (const std::string& value : proposals(std::string("headnorm explain ") + option + " "))
      proposed += (proposed.empty() ? "" : ", ") + value;
    EXPECT_EQ("use one of: " + proposed, listed) << option;
  }
}

TEST(ValuesOfType, AreTheWordsThatAreNotInCapitals) {
  EXPECT_EQ(cli::values_of_type("none|seednorm"), (Words{"none", "seednorm"}));
  EXPECT_EQ(cli::values_of_type("SIZE|auto"), Words{"auto"});
  EXPECT_EQ(cli::values_of_type("PRESET").size(), cli::presets().size());
  for (const char* type : {"", "FILE", "R,R,...", "N"}) EXPECT_TRUE(cli::values_of_type(type).empty()) << type;
}

}  // namespace
}  // namespace headnorm::test
