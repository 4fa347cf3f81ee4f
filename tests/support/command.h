// Command: runs the built headnorm as users do, without a shell, in an environment of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace headnorm::testing {

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out, err;

  // Standard output as one JSON document; a test failure if it is anything else.
  nlohmann::json json() const {
    nlohmann::json document = nlohmann::json::parse(out, nullptr, false);
    EXPECT_TRUE(document.is_object()) << "standard output is no JSON document:\n" << out << err;
    return document.is_object() ? document : nlohmann::json::object();
  }
};

inline std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_whole(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Runs HEADNORM_COMMAND (set by CMake). HOME is a directory that lives as long as the object; no other variable is set unless
// given.
class Command {
 public:
  // An empty variable is one that is not set. `stdout_path`: instead of capturing standard output.
  CommandResult run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& variables = {},
                    const std::string& stdout_path = "") const {
    const std::filesystem::path out = home_.path() / ".out", err = home_.path() / ".err";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, stdout_path.empty() ? out.c_str() : stdout_path.c_str(),
                                     stdout_path.empty() ? O_WRONLY | O_CREAT | O_TRUNC : O_WRONLY, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<std::string> words = {HEADNORM_COMMAND};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::map<std::string, std::string> all = {{"HOME", home_.path().string()}};
    for (const auto& [name, value] : variables) all[name] = value;
    std::vector<std::string> assignments;
    for (const auto& [name, value] : all) {
      if (!value.empty()) assignments.push_back(name + "=" + value);
    }
    pid_t process = 0;
    const int spawned =
        ::posix_spawn(&process, HEADNORM_COMMAND, &actions, nullptr, pointers(words).data(), pointers(assignments).data());
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(spawned, 0) << HEADNORM_COMMAND;
    int status = 0;
    if (spawned == 0) ::waitpid(process, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, stdout_path.empty() ? read_whole(out) : "", read_whole(err)};
  }

  const std::filesystem::path& home() const { return home_.path(); }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> list;
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    return list;
  }

  TemporaryDirectory home_;
};

}  // namespace headnorm::testing
