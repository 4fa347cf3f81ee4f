// Tuned table: the records of one device in one compact file, as they are shipped. Schedules and times, never code.
//
// The file is sealed JSON (sealed_json.h). What all records share stands once, texts stand once and records name them by number;
// tuning_db/README.md has the format. Records of a table have no id and no kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/database/record.h"

namespace headnorm {

// The records of one spec, in the order of their rows.
using SpecRecords = std::vector<Record>;

// Text of a table of records that agree in device, evidence, policy, search, seed, created, tool and provenance; the order of
// `records` does not matter. Same records, same bytes. Error (internal): they do not agree, or there are none.
Result<std::string> table_to_json(const std::vector<Record>& records);

// One list for each spec. Errors (user): damaged, another format, a field that is missing, unknown or ill-typed, a spec or schedule
// that does not parse, a number of neither.
Result<std::vector<SpecRecords>> table_from_json(std::string_view text);

}  // namespace headnorm
