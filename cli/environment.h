// Environment: the surroundings of the process, read once: nothing else in the project looks at environment variables.
#pragma once

#include <optional>
#include <string>

#include "core/result.h"

namespace headnorm::cli {

struct Environment {
  std::optional<std::string> database;        // HEADNORM_DB
  std::optional<std::string> tables;          // HEADNORM_TABLES
  std::optional<std::string> xdg_cache_home;  // XDG_CACHE_HOME
  std::optional<std::string> home;            // HOME
  std::optional<std::string> nvrtc;           // HEADNORM_NVRTC
  std::string path;                           // PATH
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  bool color = false;  // of messages: a terminal, and NO_COLOR is not set
};

Environment read_environment();

}  // namespace headnorm::cli
