// Journal: what an unfinished search has found out, one line a candidate, so that the same search continues where it stopped.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/result.h"
#include "runtime/database/directory.h"
#include "tuner/verification.h"

namespace headnorm {

// Either a score or a rejection.
struct JournalEntry {
  double score = 0;
  std::optional<Rejection> rejection;
};

// A line is on its way to the disk when a function returns. A line that is torn or damaged is passed over.
class Journal {
 public:
  // DB/journal/<record id>.jsonl. A journal of another `identity` (backend, search, seed: what decides the candidates and their
  // code) is begun anew. A search goes on without a journal that cannot be read and written (what lies there need not be a
  // regular file): `warning` then says why.
  static Journal open(const std::filesystem::path& database, const std::string& record_id, const std::string& identity,
                      std::string* warning);

  // Finished candidates, by canonical schedule text. One that began to run and never survived took the process with it: rejected as
  // "crash".
  const std::map<std::string, JournalEntry>& entries() const { return entries_; }

  // Around the first launches of a candidate.
  void begin(const std::string& schedule);
  void survive(const std::string& schedule);

  void finish(const std::string& schedule, const JournalEntry& entry);

  // The search is finished: the file goes.
  void remove();

 private:
  Result<void> open_files(const std::filesystem::path& database, const std::string& identity);
  void read(const std::string& bytes, const std::string& identity);
  void append(const std::string& line);

  std::string name_;
  std::optional<Directory> directory_;
  Descriptor file_;
  bool same_identity_ = false;
  std::map<std::string, JournalEntry> entries_;
};

}  // namespace headnorm
