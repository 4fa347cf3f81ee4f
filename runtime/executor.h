// Executor: threads that share the work of a launch on the host; a caller's own, where a pool of its own would crowd them.
#pragma once

#include <functional>

namespace headnorm {

class Executor {
 public:
  virtual ~Executor() = default;

  // How many tasks may run at a time, at least 1: a launch is cut into at most so many, and one that is too small to
  // be cut runs on the thread that launches. Always the same.
  virtual int threads() const = 0;

  // Calls task(i) once for each i in [0, count), in any order, on any threads (the calling one, too), and returns when all have
  // returned. `count` may be 0. A task never throws, blocks on another or calls run, and `task` is gone after the call.
  //
  // Several threads may be in run at a time, and a launch may come from a thread that is itself one of the executor's: such a call
  // must come to its end without waiting for its caller. If run throws, no task may be running any more: the launch is an error.
  virtual void run(int count, const std::function<void(int index)>& task) = 0;
};

}  // namespace headnorm
