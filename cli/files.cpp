#include "cli/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/counted.h"

namespace headnorm::cli {
namespace {

namespace fs = std::filesystem;

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  // Network file systems report a failed write only here.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

std::string remedy_of(std::string_view action, int reason) {
  switch (reason) {
    case ENOENT:
      return action == "read" ? "check the name" : "check the name, and create the directory first if it is missing";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check the permissions, or name another place";
    case ENOSPC:
    case EDQUOT:
      return "free disk space, or name another place";
    case EISDIR:
      return "name a file, not a directory";
    default:
      return "check the path and the file system";
  }
}

Error file_error(const fs::path& path, std::string_view action, int reason) {
  return environment_error(fmt::format("'{}' cannot be {}: {}", path.string(), action, std::strerror(reason)),
                           remedy_of(action, reason));
}

// Leaves the reason of a failure in errno.
bool write_bytes(int file, std::string_view bytes) {
  FileOps operations;
  const int status = write_all(operations, file, bytes);
  if (status < 0) errno = -status;
  return status == 0;
}

Result<void> write_directly(const fs::path& path, std::string_view bytes) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open() || !write_bytes(file.number(), bytes) || !file.close()) return file_error(path, "written", errno);
  return {};
}

// A new file beside `target`, with the permissions that the user's mask gives.
FileDescriptor create_temporary(const fs::path& target, fs::path& name) {
  for (int attempt = 0;; ++attempt) {
    name = target.parent_path() / fmt::format(".headnorm-{}-{}.tmp", ::getpid(), attempt);
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return FileDescriptor(file);
  }
}

bool is_same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// Nothing is lost where both are /dev/null.
bool is_standard_output(const std::string& path) {
  struct stat file {
  }, output{}, null{};
  if (::stat(path.c_str(), &file) != 0 || ::fstat(STDOUT_FILENO, &output) != 0 || !is_same_file(file, output)) return false;
  return ::stat("/dev/null", &null) != 0 || !is_same_file(file, null);
}

}  // namespace

fs::path final_path(const fs::path& path) {
  constexpr int kMostLinks = 40;
  std::error_code ignored;
  fs::path target = fs::absolute(path, ignored);
  for (int links = 0; links < kMostLinks && fs::is_symlink(target, ignored); ++links)
    target = target.parent_path() / fs::read_symlink(target, ignored);
  return fs::weakly_canonical(target.parent_path(), ignored) / target.filename();
}

Result<void> check_output(std::string_view option, const std::string& path) {
  if (path.empty()) return user_error(fmt::format("the file name after {} is empty", option), fmt::format("give {} FILE", option));
  if (is_standard_output(path))
    return user_error(fmt::format("{} '{}' is standard output, where the report goes", option, path),
                      fmt::format("give {} a file of its own", option));
  return {};
}

bool is_special_file(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

Result<InputFile> InputFile::open(const fs::path& path) {
  // Without O_NONBLOCK a pipe would be waited for.
  InputFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.descriptor_.valid() || ::fstat(file.descriptor_.get(), &status) != 0) return file_error(path, "read", errno);
  if (S_ISDIR(status.st_mode)) return file_error(path, "read", EISDIR);
  if (!S_ISREG(status.st_mode))
    return environment_error(fmt::format("'{}' cannot be read: it is not a regular file", path.string()),
                             "save it to a file, and name that");
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

Result<std::string> InputFile::read(std::uint64_t offset, std::uint64_t size) const {
  std::string bytes;
  try {
    bytes.resize(size);
  } catch (const std::exception&) {  // bad_alloc, length_error
    return environment_error(fmt::format("'{}': {} do not fit in memory", path_.string(), counted(size, "byte")),
                             "give a smaller array");
  }
  for (std::size_t filled = 0; filled < bytes.size();) {
    const ssize_t count =
        ::pread(descriptor_.get(), bytes.data() + filled, bytes.size() - filled, static_cast<off_t>(offset + filled));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(path_, "read", errno);
    if (count == 0)
      return environment_error(fmt::format("'{}' became shorter while it was read", path_.string()),
                               "give the command again when nothing writes to the file");
    filled += static_cast<std::size_t>(count);
  }
  return bytes;
}

Result<std::string> read_file(const fs::path& path) {
  HEADNORM_TRY(const InputFile file, InputFile::open(path));
  return file.read(0, file.size());
}

Result<void> write_file(const fs::path& path, std::string_view bytes) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) || !path.has_filename()) return file_error(path, "written", EISDIR);
  if (is_special_file(path)) return write_directly(path, bytes);
  // A symbolic link keeps its place; the file that it names is replaced.
  const fs::path target = fs::is_symlink(path, ignored) ? final_path(path) : path;
  fs::path temporary;
  FileDescriptor file = create_temporary(target, temporary);
  if (!file.is_open()) return file_error(path, "written", errno);
  const bool written = write_bytes(file.number(), bytes) && ::fsync(file.number()) == 0 && file.close() &&
                       ::rename(temporary.c_str(), target.c_str()) == 0;
  if (written) return {};
  const int reason = errno;
  ::unlink(temporary.c_str());
  return file_error(path, "written", reason);
}

}  // namespace headnorm::cli
