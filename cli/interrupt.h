// Interrupt: SIGINT and SIGTERM as a question that long work asks between its steps. A second signal ends the process at once.
// Blocking calls are not restarted (EINTR): who makes one asks, or makes it again.
#pragma once

namespace headnorm::cli {

class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();  // the signals act as before
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested();
};

}  // namespace headnorm::cli
