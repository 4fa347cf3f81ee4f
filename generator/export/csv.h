// CSV as RFC 4180 has it, of whole records: the one format that says everything about them, and so can be read back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "runtime/database/record.h"

namespace headnorm::exports {

inline constexpr std::size_t kMostCsvRows = 100'000;

// The records, without their kernels. Columns may stand in any order; those of a schedule's single fields and unknown ones are
// passed over. Errors (user): the line and what is wrong with it.
Result<std::vector<Record>> records_from_csv(std::string_view text);

}  // namespace headnorm::exports
