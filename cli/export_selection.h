// Export selection: which records of a database are exported, by device, kernel and evidence.
#pragma once

#include <optional>
#include <set>
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

// What they ask for.
struct Selection {
  std::optional<std::string> device;
  std::set<Evidence> evidence;
  std::optional<KernelSpec> spec;
};

// What can be said before any database is opened. Errors (user).
Result<Selection> read_selection(const SelectionOptions& options);

// The rows, not yet canonical, with their trials; `damage`: the records that could not be read, and are left out. Errors (user): a
// device that no record is of, or a selection that leaves nothing, each with what there is.
Result<std::vector<exports::Row>> select_rows(Database& database, const Selection& selection, std::vector<Damage>& damage);

}  // namespace headnorm::cli
