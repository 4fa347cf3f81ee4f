// Export selection: which records of a database are exported, by device, kernel and evidence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/shape_options.h"
#include "generator/export/row.h"
#include "runtime/database/database.h"

namespace headnorm::cli {

struct SelectionOptions {
  std::optional<std::string> device;  // an id as --device takes it, a kind, or the exact name
  std::string evidence = "measured";
  ShapeOptions shape;  // none: every kernel

  void declare(CLI::App& command);
};

// The rows, not yet canonical, with their trials; `damage`: the records that could not be read, and are left out. Errors (user): a
// device that no record is of, or a selection that leaves nothing, each with what there is.
Result<std::vector<exports::Row>> select_rows(Database& database, const SelectionOptions& options, std::vector<Damage>& damage);

}  // namespace headnorm::cli
