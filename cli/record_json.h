// Record JSON: a database record as tune reports it.
#pragma once

#include "cli/report.h"
#include "runtime/database/record.h"

namespace headnorm::cli {

// The keys of tune's `results`.
Json result_json(const Record& record);

// For tables: the ratio to a plain copy, nothing where it is not known; and "4096/256 bf16 residual seednorm".
std::string copy_ratio_text(const Record& record);
std::string short_spec(const KernelSpec& spec);

}  // namespace headnorm::cli
