#include "cli/command_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>

#include "cli/device_models.h"
#include "cli/device_option.h"
#include "cli/presets.h"
#include "cli/verb.h"
#include "core/target.h"
#include "core/text.h"

namespace headnorm::cli {
namespace {

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"host"};
  for (const Target& target : gpu_targets()) names.push_back(to_text(target));
  for (const HostIsa isa : kHostIsas) names.push_back(to_text(make_host_target(isa)));
  return names;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const Dtype dtype : kDtypes) names.emplace_back(to_text(dtype));
  return names;
}

struct Placeholder {
  std::string_view name;
  std::vector<std::string> (*values)();
};
constexpr Placeholder kPlaceholders[] = {
    {"PRESET", preset_names}, {"TARGET", target_names}, {"DEVICE", device_names}, {"MODEL", model_names}, {"DTYPE", dtype_names}};

bool is_in_capitals(std::string_view word) {
  return std::ranges::none_of(word, [](unsigned char c) { return std::islower(c) != 0; });
}

OptionWords option_words(const CLI::Option& option) {
  OptionWords words;
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  words.takes_value = option.get_expected_max() > 0;
  if (words.takes_value) words.type = option.get_type_name();
  words.values = values_of_type(words.type);
  words.help = option.get_description();
  return words;
}

// What --help does not show has no group.
void collect(const CLI::App& app, const std::string& path, std::vector<CommandWords>& list) {
  CommandWords words{.path = path, .summary = app.get_description(), .parts = {}, .options = {}, .values = {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional())
      words.values = values_of_type(option->get_type_name());
    else
      words.options.push_back(option_words(*option));
  }
  std::vector<const CLI::App*> parts;
  for (const CLI::App* part : app.get_subcommands({})) {
    if (part->get_group().empty()) continue;
    parts.push_back(part);
    words.parts.push_back(part->get_name());
  }
  list.push_back(std::move(words));
  for (const CLI::App* part : parts) collect(*part, path.empty() ? part->get_name() : path + " " + part->get_name(), list);
}

}  // namespace

std::vector<std::string> values_of_type(const std::string& type) {
  std::vector<std::string> values;
  for (const std::string_view word : text::split(type, '|')) {
    if (!is_in_capitals(word)) values.emplace_back(word);
    for (const Placeholder& placeholder : kPlaceholders) {
      if (word != placeholder.name) continue;
      const std::vector<std::string> known = placeholder.values();
      values.insert(values.end(), known.begin(), known.end());
    }
  }
  return values;
}

std::vector<CommandWords> command_words() {
  CommandOptions options;
  CLI::App app;
  declare_command(app, options);
  std::vector<std::unique_ptr<Verb>> declared;  // the options refer to them
  for (const VerbEntry& entry : verbs()) {
    declared.push_back(entry.make());
    declared.back()->declare(*add_verb(app, entry, options));
  }
  std::vector<CommandWords> list;
  collect(app, "", list);
  return list;
}

}  // namespace headnorm::cli
