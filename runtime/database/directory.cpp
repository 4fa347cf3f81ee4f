#include "runtime/database/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace headnorm {
namespace {

constexpr const char* kTemporaryPrefix = ".tmp-";
constexpr std::int64_t kStaleSeconds = 3600;
constexpr int kLockTries = 100;  // 10 ms apart

template <class Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result < 0 ? decltype(result)(-errno) : result;
}

bool is_temporary(std::string_view name) { return name.substr(0, std::string_view(kTemporaryPrefix).size()) == kTemporaryPrefix; }

// Unique among all processes of all machines that share the directory.
std::string temporary_name() {
  std::uint64_t random[2] = {};
  if (::getrandom(random, sizeof random, 0) != sizeof random) {
    random[0] = static_cast<std::uint64_t>(::getpid());
    random[1] = static_cast<std::uint64_t>(std::clock());
  }
  return fmt::format("{}{:016x}{:016x}", kTemporaryPrefix, random[0], random[1]);
}

// Why code under this is not trusted; empty if it is.
std::string distrust(const struct stat& facts) {
  if (facts.st_uid != ::geteuid()) return fmt::format("belongs to user {}, not to user {}", facts.st_uid, ::geteuid());
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) return fmt::format("is writable for others (mode {:o})", facts.st_mode & 07777);
  return "";
}

Error untrusted(const std::filesystem::path& path, const std::string& reason) {
  return environment_error(fmt::format("'{}' holds compiled code and {}", path.string(), reason),
                           "make it a directory of yours with mode 0700, delete it, or name another database with --db");
}

Error not_written(const std::filesystem::path& path, const char* step, int error) {
  return environment_error(fmt::format("cannot write '{}': {}: {}", path.string(), step, errno_text(error)),
                           "make room and the directory writable, or name another database with --db");
}

Result<void> write_and_sync(FileOps& ops, int file, std::string_view bytes, const std::filesystem::path& path) {
  if (const int status = write_all(ops, file, bytes); status < 0) return not_written(path, "write", -status);
  if (const int status = ops.sync(file); status < 0) return not_written(path, "fsync", -status);
  return {};
}

}  // namespace

std::string errno_text(int error) { return std::generic_category().message(error); }

int FileOps::make_directory(int parent, const char* name) {
  return retried([&] { return ::mkdirat(parent, name, 0700); });
}
int FileOps::create(int directory, const char* name) {
  return retried([&] { return ::openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644); });
}
std::int64_t FileOps::write(int file, const char* bytes, std::size_t size) {
  return retried([&] { return ::write(file, bytes, size); });
}
int FileOps::sync(int descriptor) {
  return retried([&] { return ::fsync(descriptor); });
}
int FileOps::rename(int directory, const char* from, const char* to) {
  return retried([&] { return ::renameat(directory, from, directory, to); });
}
int FileOps::remove(int directory, const char* name) {
  return retried([&] { return ::unlinkat(directory, name, 0); });
}
int FileOps::touch(int directory, const char* name) {
  return retried([&] { return ::utimensat(directory, name, nullptr, AT_SYMLINK_NOFOLLOW); });
}
int FileOps::lock(int descriptor) {
  return retried([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); });
}

int write_all(FileOps& ops, int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::int64_t written = ops.write(file, bytes.data(), bytes.size());
    if (written <= 0) return written < 0 ? static_cast<int>(written) : -ENOSPC;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Result<std::optional<Directory>> Directory::open(int parent, const std::string& name, std::filesystem::path path, Trust trust) {
  struct stat facts = {};
  if (::fstatat(parent, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(facts.st_mode) && trust == Trust::code)
    return untrusted(path, "is a symbolic link");
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (trust == Trust::data ? 0 : O_NOFOLLOW);
  Descriptor descriptor(retried([&] { return ::openat(parent, name.c_str(), flags); }));
  if (descriptor.get() == -ENOENT) return std::optional<Directory>();
  if (!descriptor.valid())
    return environment_error(fmt::format("cannot open the directory '{}': {}", path.string(), errno_text(-descriptor.get())),
                             "make it a directory that you may read, or name another database with --db");
  if (::fstat(descriptor.get(), &facts) != 0)
    return environment_error(fmt::format("cannot examine '{}': {}", path.string(), errno_text(errno)),
                             "name another database with --db");
  if (const std::string reason = distrust(facts); trust == Trust::code && !reason.empty()) return untrusted(path, reason);
  return std::optional<Directory>(Directory(std::move(descriptor), std::move(path), trust));
}

Result<std::optional<std::string>> Directory::read(const std::string& name, std::size_t max_bytes) const {
  const auto refuse = [&](const std::string& reason) { return user_error(reason, "delete the file"); };
  // O_NONBLOCK: opening a pipe that somebody put there must not wait for its writer.
  const Descriptor file(
      retried([&] { return ::openat(descriptor(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); }));
  if (file.get() == -ENOENT) return std::optional<std::string>();
  if (file.get() == -ELOOP) return refuse("is a symbolic link");
  if (!file.valid()) return refuse(errno_text(-file.get()));
  struct stat facts = {};
  if (::fstat(file.get(), &facts) != 0) return refuse(errno_text(errno));
  if (!S_ISREG(facts.st_mode)) return refuse("is not a regular file");
  if (const std::string reason = distrust(facts); trust_ == Trust::code && !reason.empty()) return refuse(reason);
  if (static_cast<std::uint64_t>(facts.st_size) > max_bytes)
    return refuse(fmt::format("{} bytes, more than {}", facts.st_size, max_bytes));

  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const auto got = retried([&] { return ::read(file.get(), bytes.data() + filled, bytes.size() - filled); });
    if (got < 0) return refuse(errno_text(static_cast<int>(-got)));
    if (got == 0) return refuse("became shorter while it was read");
    filled += static_cast<std::size_t>(got);
  }
  return std::optional<std::string>(std::move(bytes));
}

Result<Descriptor> Directory::open_to_append(const std::string& name) const {
  const auto refuse = [&](const std::string& reason) {
    return environment_error(fmt::format("cannot write '{}': {}", (path_ / name).string(), reason),
                             "delete that file, make its directory writable, or name another database with --db");
  };
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Descriptor file(retried([&] { return ::openat(descriptor(), name.c_str(), kFlags, 0600); }));
  if (file.get() == -ELOOP) return refuse("is a symbolic link");
  if (!file.valid()) return refuse(errno_text(-file.get()));
  struct stat facts = {};
  if (::fstat(file.get(), &facts) != 0) return refuse(errno_text(errno));
  if (!S_ISREG(facts.st_mode)) return refuse("is not a regular file");
  return file;
}

Result<void> Directory::publish(FileOps& ops, const std::string& name, std::string_view bytes) const {
  const std::filesystem::path target = path_ / name;
  const std::string temporary = temporary_name();
  const Descriptor file(ops.create(descriptor(), temporary.c_str()));
  if (!file.valid()) return not_written(target, "create a temporary", -file.get());
  if (Result<void> written = write_and_sync(ops, file.get(), bytes, target); !written.ok()) {
    ops.remove(descriptor(), temporary.c_str());
    return written;
  }
  if (const int status = ops.rename(descriptor(), temporary.c_str(), name.c_str()); status < 0) {
    ops.remove(descriptor(), temporary.c_str());
    return not_written(target, "rename", -status);
  }
  // Some file systems cannot sync a directory; the file is in place all the same.
  const int status = ops.sync(descriptor());
  if (status < 0 && status != -EINVAL && status != -ENOTSUP) return not_written(target, "fsync of the directory", -status);
  return {};
}

namespace {

Result<std::vector<std::string>> entry_names(const Directory& directory) {
  // A descriptor of its own: the position of a directory stream is shared by duplicates.
  const int descriptor = ::openat(directory.descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = descriptor >= 0 ? ::fdopendir(descriptor) : nullptr;
  if (stream == nullptr) {
    const int error = errno;
    const Descriptor closed(descriptor);
    return environment_error(fmt::format("cannot list '{}': {}", directory.path().string(), errno_text(error)),
                             "make it a directory that you may read, or name another database with --db");
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<std::vector<std::string>> Directory::names() const {
  HEADNORM_TRY(std::vector<std::string> names, entry_names(*this));
  std::erase_if(names, is_temporary);
  return names;
}

void Directory::remove_stale_temporaries(FileOps& ops) const {
  const Result<std::vector<std::string>> names = entry_names(*this);
  if (!names.ok()) return;  // whoever reads the directory next reports it
  for (const std::string& name : *names) {
    struct stat facts = {};
    if (!is_temporary(name) || ::fstatat(descriptor(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (std::time(nullptr) - facts.st_mtim.tv_sec > kStaleSeconds) ops.remove(descriptor(), name.c_str());
  }
}

Result<Descriptor> Directory::lock(FileOps& ops) const {
  Descriptor holder(::openat(descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; holder.valid() && i < kLockTries; ++i) {
    const int status = ops.lock(holder.get());
    if (status >= 0) return holder;
    if (status != -EWOULDBLOCK)
      return environment_error(fmt::format("'{}' cannot be locked: {}", path_.string(), errno_text(-status)),
                               "two processes that publish one record at once may keep the worse one; a local directory has locks");
    const timespec pause = {.tv_sec = 0, .tv_nsec = 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return Descriptor();
}

std::optional<Directory::FileFacts> Directory::examine(const std::string& name) const {
  struct stat facts = {};
  if (::fstatat(descriptor(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return FileFacts{facts.st_size, facts.st_mtim.tv_sec};
}

}  // namespace headnorm
