// Other processes for tests: forks that run a function and report by their exit status.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace headnorm::test {

// The child exits with 0 if `work` returns true, with 1 otherwise, and runs nothing else of the test.
inline pid_t start_process(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  return child;
}

// The status as of waitpid.
inline int wait_for(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

inline bool succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

}  // namespace headnorm::test
