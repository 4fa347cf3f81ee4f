// Tune lock: one tuner at a time for a database, because two that measure at once spoil each other's times.
#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include "core/result.h"
#include "runtime/database/directory.h"

namespace headnorm {

// Held until destruction; the kernel lets go of it when the process dies, however it dies.
class TuneLock {
 public:
  // Waits for DB/tune.lock. `waiting` is called about ten times a second with the process that holds it; false gives up (not held).
  // On a file system without locks the lock counts as held. Error: environment, the file cannot be created
  // or is not a regular one.
  static Result<TuneLock> acquire(const std::filesystem::path& database, const std::function<bool(int holder_pid)>& waiting);

  bool held() const { return held_; }

 private:
  TuneLock(Descriptor file, bool held) : file_(std::move(file)), held_(held) {}
  Descriptor file_;
  bool held_ = false;
};

}  // namespace headnorm
