#include "tuner/tune_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace headnorm {
namespace {

constexpr std::chrono::milliseconds kPoll(100);

int read_pid(int file) {
  char text[16] = {};
  return pread(file, text, sizeof text - 1, 0) > 0 ? std::atoi(text) : 0;
}

// For people who wait; the lock itself does not depend on it.
void write_pid(int file) {
  const std::string text = fmt::format("{}\n", getpid());
  if (ftruncate(file, 0) == 0) [[maybe_unused]]
    const ssize_t written = pwrite(file, text.data(), text.size(), 0);
}

}  // namespace

Result<TuneLock> TuneLock::acquire(const std::filesystem::path& database, const std::function<bool(int)>& waiting) {
  const std::filesystem::path path = database / "tune.lock";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return environment_error(fmt::format("{}: {}", path.string(), std::strerror(errno)),
                             "name a database directory that can be written with --db");
  }
  for (;;) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
      write_pid(file);
      return TuneLock(file, true);
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return TuneLock(file, true);
    if (!waiting(read_pid(file))) return TuneLock(file, false);
    std::this_thread::sleep_for(kPoll);
  }
}

TuneLock::TuneLock(TuneLock&& other) noexcept : file_(std::exchange(other.file_, -1)), held_(other.held_) {}

TuneLock::~TuneLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace headnorm
