// Record JSON: a database record as tune reports it, and files that hold none.
#pragma once

#include <vector>

#include "cli/report.h"
#include "runtime/database/database.h"
#include "runtime/database/record.h"

namespace headnorm::cli {

// The keys of tune's `results`.
Json result_json(const Record& record);

// [{file, reason}].
Json damage_json(const std::vector<Damage>& damage);

// For tables: the ratio to a plain copy, nothing where it is not known; and "4096/256 bf16 residual seednorm".
std::string copy_ratio_text(const Record& record);
std::string short_spec(const KernelSpec& spec);

}  // namespace headnorm::cli
