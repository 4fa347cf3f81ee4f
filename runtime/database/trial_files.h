// TrialFiles: the directory DB/trials. Nothing that is served depends on it: what cannot be read is none.
#pragma once

#include <optional>
#include <vector>

#include "runtime/database/database.h"
#include "runtime/database/directory.h"
#include "runtime/database/trial_log.h"

namespace headnorm {

class TrialFiles {
 public:
  // `trials` must outlive this.
  explicit TrialFiles(const Directory& trials) : trials_(trials) {}

  Result<void> store(FileOps& ops, const TrialLog& log) const;

  // None if absent, or of another search than the record. Errors: why it is passed over.
  Result<std::optional<TrialLog>> find(const Record& record) const;

  // Reads every file.
  Result<std::vector<Damage>> check() const;

 private:
  Result<std::optional<TrialLog>> read(const std::string& name) const;

  const Directory& trials_;
};

}  // namespace headnorm
