// Command: runs the built headnorm as users do, without a shell, in an environment of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace headnorm::test {

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

// Runs HEADNORM_COMMAND (set by CMake). HOME is a directory that lives as long as the object, and there are no shipped tables
// unless HEADNORM_TABLES is given (empty: those of the build); no other variable is set unless given.
class Command {
 public:
  // An empty variable is one that is not set. `stdout_path`: instead of capturing standard output.
  CommandResult run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& variables = {},
                    const std::string& stdout_path = "") const {
    return wait(start(arguments, variables, stdout_path), stdout_path);
  }

  // The same, interrupted (SIGINT) as soon as the condition holds.
  CommandResult interrupt_when(const std::vector<std::string>& arguments, const std::function<bool()>& condition) const {
    const pid_t process = start(arguments, {}, "");
    siginfo_t ended{};
    while (!condition()) {
      ::waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT);
      if (ended.si_pid != 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(ended.si_pid, 0) << "it ended before";
    ::kill(process, SIGINT);
    return wait(process, "");
  }

  const std::filesystem::path& home() const { return home_.path(); }

 private:
  std::filesystem::path out_path() const { return home_.path() / ".out"; }
  std::filesystem::path err_path() const { return home_.path() / ".err"; }

  pid_t start(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& variables,
              const std::string& stdout_path) const {
    const std::filesystem::path out = out_path(), err = err_path();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, stdout_path.empty() ? out.c_str() : stdout_path.c_str(),
                                     stdout_path.empty() ? O_WRONLY | O_CREAT | O_TRUNC : O_WRONLY, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<std::string> words = {HEADNORM_COMMAND};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::map<std::string, std::string> all = {{"HOME", home_.path().string()},
                                              {"HEADNORM_TABLES", (home_.path() / ".none").string()}};
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
    return spawned == 0 ? process : 0;
  }

  CommandResult wait(pid_t process, const std::string& stdout_path) const {
    int status = 0;
    if (process > 0) ::waitpid(process, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, stdout_path.empty() ? read_whole(out_path()) : "",
            read_whole(err_path())};
  }

  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> list;
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    return list;
  }

  TemporaryDirectory home_;
};

}  // namespace headnorm::test
