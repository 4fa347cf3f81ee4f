// Files: whole files read, and written so that readers see the old one or the new one and nothing between.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/result.h"

namespace headnorm::cli {

// Error (environment): missing, no regular file (a pipe or device may have no end), unreadable, larger than memory.
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
