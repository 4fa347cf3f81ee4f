// Shipped tables: the tuned tables that come with headnorm, one file a device (tuned_table.h). Read only, and read when first asked
// for.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/database/database.h"
#include "runtime/database/record_index.h"

namespace headnorm {

// Where the tables lie as seen from this library, or from the program that it is linked into: share/headnorm/tuning_db of the same
// installation or build. None if there is no such directory.
std::optional<std::filesystem::path> find_shipped_tables();

// Thread-safe.
class ShippedTables {
 public:
  // Reads nothing. `warn` is called at most once for each file that cannot be used; may be empty.
  explicit ShippedTables(std::filesystem::path directory, std::function<void(const std::string&)> warn = {})
      : directory_(std::move(directory)), warn_(std::move(warn)) {}

  const std::filesystem::path& directory() const { return directory_; }

  // As Database::look_up, of the tables of the device's instruction set; those alone are read, once.
  Result<Lookup> look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device);

  // Of all tables, sorted by file.
  std::vector<Record> list();

 private:
  const RecordIndex& index_of(const std::string& family);  // mutex_ held
  std::vector<std::filesystem::path> files_of(const std::string& family) const;
  std::vector<std::vector<Record>> read(const std::filesystem::path& file);

  std::filesystem::path directory_;
  std::function<void(const std::string&)> warn_;
  std::mutex mutex_;  // of indices_
  std::map<std::string, RecordIndex> indices_;
};

// What the name of a table's file begins with: "sm_90", "x86-64-v4"; then a point, the device and ".json".
std::string table_family(const Target& target);

}  // namespace headnorm
