// Parts of `headnorm db` that concern compiled code: gc.
#pragma once

#include <string>

#include "cli/report.h"
#include "runtime/database/database.h"

namespace headnorm::cli {

struct CollectOptions {
  std::string limit = "1GiB", grace = "1h";
};

// "512MiB", "2GiB", "100kB"; a number alone is bytes.
Result<std::int64_t> parse_bytes(const std::string& text);

// Error (user): not a size, or not a time.
Result<KernelLimit> parse_limit(const CollectOptions& options);

// Removes the kernels used longest ago until the rest is within the limit.
Result<Report> collect(const Database& database, const KernelLimit& limit, Report report);

}  // namespace headnorm::cli
