#include <csignal>

#include "cli/command.h"

int main(int argc, char** argv) {
  // A reader that closes the pipe early shows as a failed write, which is handled where it happens.
  std::signal(SIGPIPE, SIG_IGN);
  return headnorm::cli::run_command(argc, argv, headnorm::cli::read_environment());
}
