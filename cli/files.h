// Files: whole files read, and written so that readers see the old one or the new one and nothing between.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/result.h"
#include "runtime/database/directory.h"

namespace headnorm::cli {

// A regular file that is open for reading, as far as it reached when it was opened.
class InputFile {
 public:
  // Error (environment): missing, no regular file (a pipe or device may have no end), unreadable.
  static Result<InputFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }

  // These bytes alone, which must lie within size(). Error (environment): larger than memory, or the file became shorter.
  Result<std::string> read(std::uint64_t offset, std::uint64_t size) const;

 private:
  InputFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
};

// The whole file. Errors as InputFile.
Result<std::string> read_file(const std::filesystem::path& path);

// Writes a temporary beside `path`, syncs it and renames it. What is no regular file (a pipe, /dev/null) is written to directly.
// Error (environment): the directory is missing, the path is a directory, no permission, disk full.
Result<void> write_file(const std::filesystem::path& path, std::string_view bytes);

// The path that a file written as `path` gets: absolute, symbolic links followed, also one that names nothing yet.
std::filesystem::path final_path(const std::filesystem::path& path);

// A file named for output. Error (user): an empty name, or standard output, where the report goes.
Result<void> check_output(std::string_view option, const std::string& path);

// Whether something other than a regular file stands at `path`, so that nothing should be put beside it.
bool is_special_file(const std::filesystem::path& path);

}  // namespace headnorm::cli
