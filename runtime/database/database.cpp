#include "runtime/database/database.h"

#include "runtime/database/directory_database.h"

namespace headnorm {

const char* to_text(Served served) {
  constexpr const char* kNames[] = {"exact", "nearest_rows", "predicted", "nearest_rows", "other_shape", "default"};
  return kNames[static_cast<int>(served)];
}

Result<std::unique_ptr<Database>> Database::open(const std::filesystem::path& directory, DatabaseOptions options) {
  return DirectoryDatabase::open(directory, std::move(options), std::make_unique<FileOps>());
}

Result<MergeCounts> Database::merge(const std::vector<MergeEntry>& /*entries*/) {
  return internal_error("this kind of database takes no merges");
}

Result<std::filesystem::path> default_database_directory(const char* xdg_cache_home, const char* home) {
  // The XDG rules: a path that is not absolute counts as unset.
  const auto absolute = [](const char* path) { return path != nullptr && path[0] == '/'; };
  if (absolute(xdg_cache_home)) return std::filesystem::path(xdg_cache_home) / "headnorm";
  if (absolute(home)) return std::filesystem::path(home) / ".cache" / "headnorm";
  return environment_error("no place for the database: neither XDG_CACHE_HOME nor HOME is an absolute path",
                           "name a directory with --db or HEADNORM_DB");
}

}  // namespace headnorm
