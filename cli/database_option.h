// Database option: --db, and the database that it or the environment names.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/report.h"
#include "runtime/database/database.h"
#include "runtime/database/shipped_tables.h"

namespace CLI {
class App;
}

namespace headnorm::cli {

struct DatabaseOption {
  std::optional<std::string> db;

  void declare(CLI::App& command);
};

// What can be said before any directory is looked at. Error (user).
Result<void> check_database_option(const DatabaseOption& option);

// --db, else HEADNORM_DB, else the user's cache directory.
Result<std::filesystem::path> database_directory(const DatabaseOption& option, const Environment& environment);

enum class DatabaseNeed {
  write,   // must be writable
  read,    // must be there
  attempt  // the best that can be had: writable, else readable, else none, with one warning
};

// Null only for `attempt`.
Result<std::unique_ptr<Database>> open_database(const DatabaseOption& option, const Context& context, DatabaseNeed need);

// The tables that come with headnorm: of the directory that HEADNORM_TABLES names, else of this installation or build. Null: none.
std::shared_ptr<ShippedTables> open_shipped_tables(const Context& context);

// What answers look-ups: the user's database (`attempt`, or as it is, which may be none) with the shipped tables below it. Null:
// there is neither.
Result<std::unique_ptr<Database>> open_serving_database(const DatabaseOption& option, const Context& context);
Result<std::unique_ptr<Database>> open_consulted_database(const DatabaseOption& option, const Context& context);

}  // namespace headnorm::cli
