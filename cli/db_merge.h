// Parts of db that work on more than one database: merge, import, diff.
#pragma once

#include <string>
#include <vector>

#include "cli/report.h"
#include "runtime/database/database.h"

namespace headnorm::cli {

// All that is merged is read and checked before the database that takes it in is opened.
Result<std::vector<MergeEntry>> read_databases(const std::vector<std::string>& others, const Context& context);
Result<std::vector<MergeEntry>> read_imports(const std::string& format, const std::vector<std::string>& files);
Result<Report> take_in(const std::vector<MergeEntry>& entries, Database& into);

// Records of one alone, and of both where they differ.
Result<Report> diff_databases(const std::string& a, const std::string& b, const Context& context);

}  // namespace headnorm::cli
