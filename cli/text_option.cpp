#include "cli/text_option.h"

#include <CLI/CLI.hpp>

namespace headnorm::cli {

CLI::Option* add_text_option(CLI::App& command, const std::string& names, std::optional<std::string>& value,
                             const std::string& type, const std::string& help) {
  // CLI11 takes an empty text for an optional that is not there, so the value is set by hand.
  return command
      .add_option_function<std::string>(
          names, [&value](const std::string& text) { value = text; }, help)
      ->type_name(type);
}

}  // namespace headnorm::cli
