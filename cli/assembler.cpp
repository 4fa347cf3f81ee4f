#include "cli/assembler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "cli/files.h"
#include "cli/report.h"
#include "core/text.h"

extern char** environ;

namespace headnorm::cli {
namespace {

struct Output {
  int exit_code = -1;
  std::string text;  // of both streams
};

// Runs a program without a shell. None: it could not be started.
std::optional<Output> run(const std::string& program, std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  pid_t process = 0;
  const int failed = ::posix_spawn(&process, program.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Output output;
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  while (failed == 0 && ((count = ::read(ends[0], buffer.data(), buffer.size())) > 0 || (count < 0 && errno == EINTR))) {
    if (count > 0) output.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  if (failed != 0) return std::nullopt;
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
  return output;
}

// The number that follows `before`, or precedes `after`, in a text.
std::optional<int> number_between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t begin = text.find(before);
  if (begin == std::string::npos) return std::nullopt;
  const std::size_t from = begin + before.size(), end = text.find(after, from);
  if (end == std::string::npos || end == from) return std::nullopt;
  const Result<std::int64_t> number = text::parse_integer(text.substr(from, end - from), "a number of ptxas");
  return number.ok() ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

std::string version_of(const std::string& text) {
  const std::string before = "release ";
  const std::size_t begin = text.find(before);
  if (begin == std::string::npos) return "ptxas";
  const std::size_t from = begin + before.size();
  return "ptxas " + text.substr(from, text.find(',', from) - from);
}

// A directory that goes with what is in it.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path(failed_) / "headnorm-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Scratch() {
    if (!path_.empty()) std::filesystem::remove_all(path_, failed_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::error_code failed_;
  std::filesystem::path path_;
};

}  // namespace

std::optional<Assembler> find_assembler(const Environment& environment) {
  for (std::string_view directory : text::split(environment.path, ':')) {
    if (directory.empty()) continue;
    const std::string candidate = (std::filesystem::path(directory) / "ptxas").string();
    if (::access(candidate.c_str(), X_OK) != 0) continue;
    const std::optional<Output> output = run(candidate, {"--version"});
    if (output && output->exit_code == 0) return Assembler{candidate, version_of(output->text)};
  }
  return std::nullopt;
}

Result<int> count_registers(const Assembler& assembler, const std::string& ptx, const Target& target) {
  const Scratch scratch;
  if (scratch.path().empty())
    return environment_error("no temporary directory for ptxas", "make room in the directory that TMPDIR names");
  const std::string file = (scratch.path() / "kernel.ptx").string();
  HEADNORM_CHECK(write_file(file, ptx));
  const std::optional<Output> output = run(assembler.path, {"-arch=" + processor_name(target), "-v", "-o", "/dev/null", file});
  if (!output) return environment_error(fmt::format("'{}' could not be started", assembler.path), "mend or remove it from PATH");
  if (output->exit_code == 0) {
    if (const std::optional<int> registers = number_between(output->text, "Used ", " registers")) return *registers;
  }
  return environment_error(
      fmt::format("{} refuses a kernel for {}: {}", assembler.version, to_text(target), printable(output->text)),
      "use a ptxas that knows this target, or take it out of PATH: registers are then estimated");
}

}  // namespace headnorm::cli
