// RecordFiles: the directory DB/records, read again only where it changed.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/database/database.h"
#include "runtime/database/directory.h"

namespace headnorm {

std::string record_file_name(const std::string& id);

// The record of this file; none if there is no such file. Errors: why it is not read.
Result<std::optional<Record>> read_record_file(const Directory& records, const std::string& name);

// Not thread-safe.
class RecordFiles {
 public:
  // `records` must outlive this.
  explicit RecordFiles(const Directory& records) : records_(records) {}

  // Brings the files in memory up to date; true if any changed. Costs one system call when nothing did. Errors: environment.
  Result<bool> refresh();

  // By file name.
  std::vector<std::shared_ptr<const Record>> records() const;
  std::vector<Damage> damage() const;

 private:
  // Equal stamps mean equal content, unless the change was so recent that the clock of the file system may not have moved since.
  struct Stamp {
    std::uint64_t inode = 0;
    std::int64_t size = 0, modified_ns = 0, changed_ns = 0;
    bool settled = false;
    bool still_true(const Stamp& now) const;
  };
  struct File {
    Stamp stamp;
    std::shared_ptr<const Record> record;  // null if damaged
    std::string reason;
  };
  static Stamp make_stamp(const struct stat& facts);
  std::optional<File> read(const std::string& name, const Stamp& stamp) const;  // none if there is no such file

  const Directory& records_;
  Stamp stamp_;
  std::map<std::string, File> files_;
};

}  // namespace headnorm
