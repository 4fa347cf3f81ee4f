#include "cli/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace headnorm::cli {
namespace {

// An empty variable counts as unset.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.database = variable("HEADNORM_DB");
  environment.tables = variable("HEADNORM_TABLES");
  environment.xdg_cache_home = variable("XDG_CACHE_HOME");
  environment.home = variable("HOME");
  environment.nvrtc = variable("HEADNORM_NVRTC");
  environment.path = variable("PATH").value_or("");
  environment.stdout_is_terminal = isatty(STDOUT_FILENO) == 1;
  environment.stderr_is_terminal = isatty(STDERR_FILENO) == 1;
  environment.color = environment.stderr_is_terminal && !variable("NO_COLOR");
  return environment;
}

}  // namespace headnorm::cli
