// Command words: what can stand on a command line of headnorm, read out of the very definitions that parse it.
//
// The values of an option follow from its type as --help shows it. Of "none|seednorm", "SIZE|auto" and the like the words that are
// not in capitals are values; of the names in capitals PRESET, TARGET, DEVICE, MODEL and DTYPE stand for what there is, FILE and
// DIR for paths, and all others for what only the user knows.
#pragma once

#include <string>
#include <vector>

namespace headnorm::cli {

struct OptionWords {
  std::vector<std::string> names;   // "-o", "--output"
  bool takes_value = false;         // false: a flag
  std::string type;                 // "FILE", "none|seednorm"
  std::vector<std::string> values;  // those that are known
  std::string help;
};

struct CommandWords {
  std::string path;  // "", "explain", "db list"
  std::string summary;
  std::vector<std::string> parts;  // verbs of headnorm, parts of db
  std::vector<OptionWords> options;
  std::vector<std::string> values;  // of its first argument that is no option
};

// headnorm itself first, each command before its parts. What --help does not show is left out.
std::vector<CommandWords> command_words();

// The rule above.
std::vector<std::string> values_of_type(const std::string& type);

}  // namespace headnorm::cli
