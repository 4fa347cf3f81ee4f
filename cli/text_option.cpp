#include "cli/text_option.h"

#include <CLI/CLI.hpp>

namespace headnorm::cli {

void add_text_option(CLI::App& command, const std::string& names, std::optional<std::string>& value, const std::string& type,
                     const std::string& help, const std::string& group) {
  // CLI11 takes an empty text for an optional that is not there, so the value is set by hand.
  command
      .add_option_function<std::string>(
          names, [&value](const std::string& text) { value = text; }, help)
      ->type_name(type)
      ->group(group);
}

void add_text_option(CLI::App& command, const std::string& names, std::string& value, const std::string& type,
                     const std::string& help) {
  command.add_option(names, value, help)->type_name(type);
}

void add_flag(CLI::App& command, const std::string& names, bool& value, const std::string& help) {
  command.add_flag(names, value, help);
}

}  // namespace headnorm::cli
