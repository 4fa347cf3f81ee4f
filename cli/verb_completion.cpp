// completion: the script by which a shell completes headnorm's command lines.
#include <fmt/format.h>

#include "cli/completion.h"
#include "cli/suggest.h"
#include "cli/text_option.h"
#include "cli/verb.h"

namespace headnorm::cli {
namespace {

struct Shell {
  const char* name;
  std::string (*render)(const std::vector<CommandWords>& commands);
};
constexpr Shell kShells[] = {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

class CompletionVerb final : public Verb {
 public:
  void declare(CLI::App& command) override { add_text_option(command, "shell", shell_, "bash|zsh|fish", "the shell to write for"); }

  Result<Report> run(const Context&) override {
    std::vector<std::string> names;
    for (const Shell& shell : kShells) {
      names.emplace_back(shell.name);
      if (shell_ != shell.name) continue;
      Report report;
      report.text = shell.render(command_words());
      report.document = {{"shell", shell_}, {"text", report.text}};
      return report;
    }
    const std::string what =
        shell_.empty() ? "completion is given no shell" : fmt::format("completion has no script for '{}'", shell_);
    return user_error(what, suggestion(shell_, names) + "use completion bash, zsh or fish");
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Verb> make_completion_verb() { return std::make_unique<CompletionVerb>(); }

}  // namespace headnorm::cli
