// Merge input: what `db merge` and `db import` take in, read whole and checked before anything is written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/report.h"
#include "runtime/database/database.h"

namespace headnorm::cli {

// The records of another database with their trials. Errors: it is not there, or holds a damaged record (environment, user): half
// of a database is not merged.
Result<std::vector<MergeEntry>> read_database(const std::filesystem::path& directory, const Context& context);

// Of a file that export wrote, by the name of its format; also compressed. Errors (user, environment) begin with the file's name.
Result<std::vector<MergeEntry>> read_import(const std::string& format, const std::filesystem::path& path);

}  // namespace headnorm::cli
