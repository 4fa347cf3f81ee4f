// Directory: files of one directory, published whole or not at all, and read without trusting what lies there.
//
// Everything goes through one open descriptor and plain file names: a path that is renamed or replaced later leads nowhere else,
// and no name can leave the directory.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace headnorm {

// The system calls that change a directory. Tests inject one that fails or stops at a chosen call. Every function returns what the
// call does, or the negative errno.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual int make_directory(int parent, const char* name);  // 0700
  virtual int create(int directory, const char* name);       // a descriptor; the file must not be there
  virtual std::int64_t write(int file, const char* bytes, std::size_t size);
  virtual int sync(int descriptor);
  virtual int rename(int directory, const char* from, const char* to);
  virtual int remove(int directory, const char* name);
  virtual int touch(int directory, const char* name);  // its time of modification becomes now
  virtual int lock(int descriptor);                    // exclusive, without waiting
};

// All of `bytes`, in as many calls as it takes. 0, or the negative errno.
int write_all(FileOps& ops, int file, std::string_view bytes);

// A descriptor with one owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }

 private:
  int value_ = -1;
};

// What a directory and its files must be to be read.
enum class Trust : std::uint8_t {
  data,      // any directory of regular files
  unlinked,  // the same, but not behind a symbolic link
  code,      // of this user, writable for nobody else, no symbolic links
};

class Directory {
 public:
  // `path` is for messages; what is opened is `name` in `parent` (AT_FDCWD and the path itself for the outermost). None if absent.
  // Errors: environment.
  static Result<std::optional<Directory>> open(int parent, const std::string& name, std::filesystem::path path, Trust trust);

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_.get(); }

  // The bytes; none if there is no such file. Errors: why it is not read (not a regular file, too large, not trusted, ...).
  Result<std::optional<std::string>> read(const std::string& name, std::size_t max_bytes) const;

  // A regular file to read and append to, created (0600) if absent; never waits. Errors: environment, for anything else of this
  // name.
  Result<Descriptor> open_to_append(const std::string& name) const;

  // Replaces the file: a temporary beside it is written, synced and renamed, and the directory synced.
  Result<void> publish(FileOps& ops, const std::string& name, std::string_view bytes) const;

  // Names of everything in it, sorted, without temporaries.
  Result<std::vector<std::string>> names() const;

  // Removes temporaries that no living writer can still be writing: those older than an hour.
  void remove_stale_temporaries(FileOps& ops) const;

  // Waits, at most a second, until no other process holds the lock, and holds it while the result lives. Only an aid to order
  // writers: a lock that is not had in time is not valid and the writer goes on. Error (environment): locks do not work here.
  Result<Descriptor> lock(FileOps& ops) const;

  // Size and time of a regular file in it.
  struct FileFacts {
    std::int64_t size = 0, modified_s = 0;
  };
  std::optional<FileFacts> examine(const std::string& name) const;

 private:
  Directory(Descriptor descriptor, std::filesystem::path path, Trust trust)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), trust_(trust) {}

  Descriptor descriptor_;
  std::filesystem::path path_;
  Trust trust_;
};

// The text of an errno value.
std::string errno_text(int error);

}  // namespace headnorm
