#include "runtime/database/database.h"

#include <fmt/format.h>

#include "core/counted.h"
#include "runtime/database/directory_database.h"

namespace headnorm {

const char* to_text(Served served) {
  constexpr const char* kNames[] = {"exact",        "nearest_rows", "predicted",    "nearest_rows",
                                    "nearest_rows", "other_shape",  "other_device", "default"};
  return kNames[static_cast<int>(served)];
}

const char* to_text(Origin origin) { return origin == Origin::user ? "user" : "shipped"; }

std::string describe(const Lookup& lookup) {
  if (!lookup.record) return "the default: nothing is known of this shape here";
  const Record& record = *lookup.record;
  const char* const how = record.evidence == Evidence::measured    ? "measured on"
                          : record.evidence == Evidence::predicted ? "predicted by a cost model for"
                                                                   : "a dry run on";
  std::string text = fmt::format("{} {} at {}", how, record.device.name, counted(record.rows, "row"));
  if (lookup.served == Served::other_shape || lookup.served == Served::other_device)
    text += fmt::format(", width {}, head size {}", record.spec.width, record.spec.head_size);
  return lookup.origin == Origin::shipped ? text + ", shipped with headnorm" : text;
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
