// Parts of db that work on more than one database: merge, import, diff.
#pragma once

#include <string>
#include <vector>

#include "cli/report.h"
#include "runtime/database/database.h"

namespace headnorm::cli {

// All that is merged is read and checked before the first record changes.
Result<Report> merge_databases(const std::vector<std::string>& others, Database& into, const Context& context);
Result<Report> import_files(const std::string& format, const std::vector<std::string>& files, Database& into);

// Records of one alone, and of both where they differ.
Result<Report> diff_databases(const std::string& a, const std::string& b, const Context& context);

}  // namespace headnorm::cli
