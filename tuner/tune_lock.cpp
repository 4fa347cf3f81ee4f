#include "tuner/tune_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
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
  HEADNORM_TRY(const std::optional<Directory> root, Directory::open(AT_FDCWD, database.string(), database, Trust::data));
  if (!root)
    return environment_error(fmt::format("cannot create '{}': there is no such directory", (database / "tune.lock").string()),
                             "name a database directory that can be written with --db");
  HEADNORM_TRY(Descriptor file, root->open_to_append("tune.lock"));
  for (;;) {
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      write_pid(file.get());
      return TuneLock(std::move(file), true);
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return TuneLock(std::move(file), true);
    if (!waiting(read_pid(file.get()))) return TuneLock(std::move(file), false);
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace headnorm
