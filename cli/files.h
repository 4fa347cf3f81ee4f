// Files: whole files read, and written so that readers see the old one or the new one and nothing between.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/result.h"

namespace headnorm::cli {

// Error (environment): missing, a directory, unreadable, larger than memory.
Result<std::string> read_file(const std::filesystem::path& path);

// Writes a temporary beside `path`, syncs it and renames it. What is no regular file (a pipe, /dev/null) is written to directly.
// Error (environment): the directory is missing, the path is a directory, no permission, disk full.
Result<void> write_file(const std::filesystem::path& path, std::string_view bytes);

// Whether something other than a regular file stands at `path`, so that nothing should be put beside it.
bool is_special_file(const std::filesystem::path& path);

}  // namespace headnorm::cli
