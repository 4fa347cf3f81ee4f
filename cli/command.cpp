#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/suggest.h"
#include "cli/verb.h"

namespace headnorm::cli {
namespace {

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const VerbEntry& entry : verbs()) names.push_back(entry.name);
  return names;
}

constexpr std::string_view kLaterVerbs[] = {"bench", "report", "pack"};

Error unknown_verb(const std::string& verb) {
  if (std::ranges::find(kLaterVerbs, verb) != std::end(kLaterVerbs))
    return user_error(fmt::format("{} is not in this version (headnorm {})", verb, HEADNORM_VERSION),
                      "'headnorm --help' lists the verbs");
  return user_error(fmt::format("'{}' is not a verb of headnorm", verb),
                    suggestion(verb, verb_names()) + "'headnorm --help' lists the verbs");
}

// Everything typed, before it is parsed: the verb says which options there are.
struct CommandLine {
  std::vector<std::string> arguments;
  std::string verb;  // empty: none is given, or an option of a verb stands before it
};

// Before the verb stand flags alone.
bool is_common_flag(std::string_view argument) {
  return argument == "-h" || argument == "--help" || argument == "--version" || argument == "--json" ||
         argument.starts_with("--json=");
}

CommandLine read_command_line(int argc, const char* const* argv) {
  CommandLine line;
  line.arguments.assign(argv + std::min(argc, 1), argv + argc);
  const auto first = std::ranges::find_if_not(line.arguments, is_common_flag);
  if (first != line.arguments.end() && !first->starts_with('-')) line.verb = *first;
  return line;
}

bool takes_value(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = name.starts_with('-') ? app.get_option_no_throw(name) : nullptr;
  if (option != nullptr && option->get_expected_max() > 0) return true;
  return std::ranges::any_of(app.get_subcommands({}), [&](const CLI::App* nested) { return takes_value(*nested, name); });
}

// --json as it is typed ("--json=1" too), or nothing: errors of parsing need it before there is a parsed command. An option's value
// is no flag, whatever it says.
std::string find_json(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::string found;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i].starts_with("--json=")) return arguments[i];
    if (arguments[i] == "--json") found = arguments[i];
    if (takes_value(app, arguments[i])) ++i;
  }
  return found;
}

void collect_option_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  for (const CLI::App* nested : app.get_subcommands({})) collect_option_names(*nested, names);
}

std::string help_remedy(const std::string& verb) {
  return fmt::format("'headnorm {}--help' lists the options", verb.empty() ? "" : verb + " ");
}

// What CLI11 could not place: the first is named, with its nearest known spelling.
Error unexpected_argument(const CLI::App& command, const std::string& argument, const std::string& verb) {
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> names;
  collect_option_names(command, names);
  for (const CLI::App* nested : command.get_subcommands({})) names.push_back(nested->get_name());
  return user_error(fmt::format("{} does not know {} '{}'", verb.empty() ? "headnorm" : verb,
                                name.starts_with('-') ? "option" : "argument", name),
                    suggestion(name, names) + help_remedy(verb));
}

// "--width: 1 required D missing" and the like, said as a rule.
std::string mismatch_text(const std::string& what) {
  const std::string option = what.substr(0, what.find(':'));
  if (what.find("At Most") != std::string::npos) return option + " is given more than once";
  if (what.find("missing") != std::string::npos) return option + " is given without a value";
  return what;
}

Error parse_failure(const CLI::App& app, const std::string& verb, const CLI::ParseError& failure) {
  const CLI::App* command = &app;
  for (const CLI::App* known : app.get_subcommands({})) {
    if (known->get_name() == verb) command = known;
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&failure) != nullptr && !command->remaining(true).empty())
    return unexpected_argument(*command, command->remaining(true).front(), verb);
  const bool mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&failure) != nullptr;
  return user_error(mismatch ? mismatch_text(failure.what()) : failure.what(), help_remedy(verb));
}

Report text_report(std::string text) {
  Report report;
  report.text = std::move(text);
  return report;
}

// A verb is asked for help, or does its work. Exceptions that reach this place are of the standard library (memory) alone.
int run_verb(Verb& verb, const Context& context) {
  try {
    const Result<Report> report = verb.run(context);
    return report.ok() ? print_report(context, *report) : print_error(context, report.error());
  } catch (const std::bad_alloc&) {
    return print_error(context, environment_error("memory is exhausted", "give fewer rows, or free memory"));
  } catch (const std::exception& failure) {
    return print_error(context, internal_error(failure.what()));
  }
}

}  // namespace

int run_command(int argc, const char* const* argv, const Environment& environment) {
  const CommandLine line = read_command_line(argc, argv);
  Context context{.environment = environment, .verb = line.verb};
  CLI::App app("Generates, tunes, stores and runs kernels of multi-head RMSNorm and its family.", "headnorm");
  CommandOptions options;
  declare_command(app, options);
  app.footer(
      "'headnorm VERB --help' explains a verb. Exit codes: 0 right, 1 a check failed, 2 usage, 3 environment,\n"
      "70 internal error, 75 interrupted (the same command resumes).");
  std::unique_ptr<Verb> verb;
  for (const VerbEntry& known : verbs()) {
    CLI::App* command = add_verb(app, known, options);
    if (line.verb != known.name) continue;
    verb = known.make();
    verb->declare(*command);
  }
  const std::string json_flag = find_json(app, line.arguments);
  context.json = !json_flag.empty();
  if (context.json && json_flag != "--json")
    return print_error(context,
                       user_error(fmt::format("--json is a flag, and '{}' gives it a value", json_flag), "give --json alone"));
  if (verb == nullptr && !line.verb.empty()) return print_error(context, unknown_verb(line.verb));
  try {
    std::vector<std::string> reversed(line.arguments.rbegin(), line.arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    Report report = text_report(app.help());
    report.document["help"] = report.text;
    return print_report(context, report);
  } catch (const CLI::ParseError& failure) {
    return print_error(context, parse_failure(app, line.verb, failure));
  }
  if (options.version) {
    context.verb = "version";
    return print_report(context, text_report(fmt::format("headnorm {}\n", HEADNORM_VERSION)));
  }
  if (verb == nullptr) return print_error(context, user_error("no verb is given", "'headnorm --help' lists the verbs"));
  return run_verb(*verb, context);
}

}  // namespace headnorm::cli
