// Layered database: a user's database and, below it, the tables that come with headnorm.
#pragma once

#include "runtime/database/shipped_tables.h"

namespace headnorm {

// A database that answers from `user` and, where they know better, from the tables. Everything else is as `user` does it; without a
// user's database (null) nothing is kept, its list is that of the tables, and `warn` takes its warnings.
std::unique_ptr<Database> add_shipped_tables(std::unique_ptr<Database> user, std::shared_ptr<ShippedTables> tables,
                                             std::function<void(const std::string&)> warn = {});

// Database::open with the shipped tables below it, where they are found.
Result<std::unique_ptr<Database>> open_layered_database(const std::filesystem::path& directory, DatabaseOptions options = {});

}  // namespace headnorm
