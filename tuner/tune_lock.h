// Tune lock: one tuner at a time for a database, because two that measure at once spoil each other's times.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/result.h"

namespace headnorm {

// Held until destruction; the kernel lets go of it when the process dies, however it dies.
class TuneLock {
 public:
  // Waits for DB/tune.lock. `waiting` is called about ten times a second with the process that holds it; false gives up (not held).
  // On a file system without locks the lock counts as held. Error: environment, the file cannot be created.
  static Result<TuneLock> acquire(const std::filesystem::path& database, const std::function<bool(int holder_pid)>& waiting);

  TuneLock(TuneLock&& other) noexcept;
  TuneLock& operator=(TuneLock&&) = delete;
  ~TuneLock();

  bool held() const { return held_; }

 private:
  TuneLock(int file, bool held) : file_(file), held_(held) {}
  int file_ = -1;
  bool held_ = false;
};

}  // namespace headnorm
