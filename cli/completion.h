// Completion: scripts by which a shell completes the command lines of headnorm.
#pragma once

#include <string>
#include <vector>

#include "cli/command_words.h"

namespace headnorm::cli {

std::string bash_completion(const std::vector<CommandWords>& commands);
std::string zsh_completion(const std::vector<CommandWords>& commands);
std::string fish_completion(const std::vector<CommandWords>& commands);

}  // namespace headnorm::cli
