// Text option: an option whose value is kept as it was typed; the empty text is a value too.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace headnorm::cli {

// `value` must live as long as the command is parsed.
CLI::Option* add_text_option(CLI::App& command, const std::string& names, std::optional<std::string>& value,
                             const std::string& type, const std::string& help);

}  // namespace headnorm::cli
