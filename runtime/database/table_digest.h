// Digest of a table of records: processes that are to choose alike (the ranks of one job) compare it.
#pragma once

#include <string>
#include <vector>

#include "runtime/database/record.h"

namespace headnorm {

// 64 hexadecimal digits of the whole content of the records, whatever their order. Equal for copies of one table.
std::string table_digest(const std::vector<Record>& records);

}  // namespace headnorm
