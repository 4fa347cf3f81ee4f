// Options as verbs declare them: texts, kept as they were typed (the empty text is one too), and flags. They are what verbs need of
// CLI11, whose header takes a compiler seconds in every file that includes it.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace headnorm::cli {

// `value` must live as long as the command is parsed. The help lists the option under `group`; not at all under "".
void add_text_option(CLI::App& command, const std::string& names, std::optional<std::string>& value, const std::string& type,
                     const std::string& help, const std::string& group = "Options");

// With a default: `value` as it is.
void add_text_option(CLI::App& command, const std::string& names, std::string& value, const std::string& type,
                     const std::string& help);

void add_flag(CLI::App& command, const std::string& names, bool& value, const std::string& help);

}  // namespace headnorm::cli
