#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace headnorm::cli {
namespace {

// What follows the tables of words. `typed` is the word under the cursor up to the cursor; the words before it say which command
// and which option it belongs to. An option's value is found after a blank and after '='.
constexpr const char* kWalk =
    R"(# Sets command, option (the one whose value is typed, or nothing) and typed, from the words before and at the cursor.
_headnorm_walk() {
  command='' option=''
  local word
  while [[ $# -gt 1 ]]; do
    word=$1
    shift
    if [[ -n $option ]]; then option=''; continue; fi
    case $word in
      -*=*) ;;
      -*) if ! _headnorm_is_flag "$command $word"; then option=$word; fi ;;
      *) if [[ " $(_headnorm_parts "$command") " == *" $word "* ]]; then command="${command:+$command }$word"; fi ;;
    esac
  done
  typed=$1
  if [[ -z $option && $typed == -*=* ]]; then option=${typed%%=*} typed=${typed#*=}; fi
}

# The words that may stand at the cursor, on one line.
_headnorm_candidates() {
  if [[ -n $option ]]; then _headnorm_values "$command $option"; return; fi
  if [[ $typed == -* ]]; then _headnorm_options "$command"; return; fi
  _headnorm_parts "$command"
  _headnorm_values "$command"
}
)";

constexpr const char* kBash = R"(
_headnorm() {
  local line=${COMP_LINE:0:COMP_POINT} last=${COMP_WORDS[COMP_CWORD]} command option typed kept word
  local -a words
  read -ra words <<<"$line"
  if [[ $line == *[[:blank:]] ]]; then words+=(''); fi
  _headnorm_walk "${words[@]:1}"
  # Bash ends words at '=' and ':' and replaces only what stands behind them.
  case $last in [=:]) last='' ;; esac
  kept=$((${#typed} - ${#last}))
  if [[ $kept -lt 0 ]]; then kept=0; fi
  COMPREPLY=()
  for word in $(_headnorm_candidates); do
    if [[ $word == "$typed"* ]]; then COMPREPLY+=("${word:kept}"); fi
  done
}

# Where there are no words to propose, names of files are.
complete -o bashdefault -o default -F _headnorm headnorm
)";

constexpr const char* kZsh = R"(
_headnorm() {
  local command option typed
  local -a candidates
  _headnorm_walk "${(@)words[2,CURRENT]}"
  candidates=(${=$(_headnorm_candidates)})
  if [[ -n $option && $words[CURRENT] == -*=* ]]; then compset -P '*='; fi
  if [[ ${#candidates} -gt 0 ]]; then compadd -a candidates; else _files; fi
}

if [[ $funcstack[1] == _headnorm ]]; then _headnorm; else compdef _headnorm headnorm; fi
)";

// Tables as functions of a shell: the words of a key. Keys with the same words share a branch.
class TableFunction {
 public:
  explicit TableFunction(std::string name) : name_(std::move(name)) {}

  void add(const std::string& key, const std::vector<std::string>& words) {
    if (!words.empty()) keys_[fmt::format("{}", fmt::join(words, " "))].push_back(fmt::format("'{}'", key));
  }

  std::string render() const {
    std::string text = name_ + "() {\n  case $1 in\n";
    for (const auto& [words, keys] : keys_) text += fmt::format("    {}) echo '{}' ;;\n", fmt::join(keys, " | "), words);
    return text + "  esac\n}\n\n";
  }

 private:
  std::string name_;
  std::map<std::string, std::vector<std::string>> keys_;
};

std::string flag_function(const std::vector<CommandWords>& commands) {
  std::vector<std::string> flags;
  for (const CommandWords& command : commands) {
    for (const OptionWords& option : command.options) {
      if (option.takes_value) continue;
      for (const std::string& name : option.names) flags.push_back(fmt::format("'{} {}'", command.path, name));
    }
  }
  return fmt::format("_headnorm_is_flag() {{\n  case $1 in\n    {}) return 0 ;;\n  esac\n  return 1\n}}\n\n",
                     fmt::join(flags, " | "));
}

std::vector<std::string> option_names(const CommandWords& command) {
  std::vector<std::string> names;
  for (const OptionWords& option : command.options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// For bash and zsh, which read these functions alike.
std::string tables(const std::vector<CommandWords>& commands) {
  TableFunction parts("_headnorm_parts"), options("_headnorm_options"), values("_headnorm_values");
  for (const CommandWords& command : commands) {
    parts.add(command.path, command.parts);
    options.add(command.path, option_names(command));
    values.add(command.path, command.values);
    for (const OptionWords& option : command.options) {
      for (const std::string& name : option.names) values.add(command.path + " " + name, option.values);
    }
  }
  return parts.render() + options.render() + values.render() + flag_function(commands) + kWalk;
}

std::string fish_quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return "'" + quoted + "'";
}

std::string fish_condition(const CommandWords& command) {
  if (command.path.empty()) return "__fish_use_subcommand";
  const std::size_t blank = command.path.find(' ');
  const std::string verb = command.path.substr(0, blank);
  std::string condition = "__fish_seen_subcommand_from " + verb;
  if (blank != std::string::npos) condition += "; and __fish_seen_subcommand_from " + command.path.substr(blank + 1);
  if (!command.parts.empty()) condition += fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(command.parts, " "));
  return condition;
}

std::string fish_option(const OptionWords& option) {
  std::string text;
  for (const std::string& name : option.names) text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.type == "FILE" || option.type == "DIR")
    text += " -r -F";
  else if (option.takes_value)
    text += " -x";
  if (!option.values.empty()) text += " -a " + fish_quoted(fmt::format("{}", fmt::join(option.values, " ")));
  return text + " -d " + fish_quoted(option.help);
}

}  // namespace

std::string bash_completion(const std::vector<CommandWords>& commands) {
  return "# Completion of headnorm in bash.\n\n" + tables(commands) + kBash;
}

std::string zsh_completion(const std::vector<CommandWords>& commands) {
  return "#compdef headnorm\n# Completion of headnorm in zsh.\n\n" + tables(commands) + kZsh;
}

std::string fish_completion(const std::vector<CommandWords>& commands) {
  std::string text = "# Completion of headnorm in fish.\n\ncomplete -c headnorm -f\n";
  for (const CommandWords& command : commands) {
    const std::string start = "complete -c headnorm -n " + fish_quoted(fish_condition(command));
    for (const CommandWords& part : commands) {
      const std::string prefix = command.path.empty() ? "" : command.path + " ";
      if (part.path == command.path || !part.path.starts_with(prefix)) continue;
      const std::string name = part.path.substr(prefix.size());
      if (name.find(' ') == std::string::npos) text += start + " -a " + name + " -d " + fish_quoted(part.summary) + "\n";
    }
    if (!command.values.empty()) text += start + " -a " + fish_quoted(fmt::format("{}", fmt::join(command.values, " "))) + "\n";
    for (const OptionWords& option : command.options) text += start + fish_option(option) + "\n";
  }
  return text;
}

}  // namespace headnorm::cli
