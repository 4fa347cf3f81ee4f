// DirectoryDatabase: the Database on a directory of the file system. Thread-safe.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/database/database.h"
#include "runtime/database/directory.h"
#include "runtime/database/kernel_files.h"
#include "runtime/database/record_files.h"
#include "runtime/database/record_index.h"
#include "runtime/database/trial_files.h"

namespace headnorm {

class DirectoryDatabase final : public Database {
 public:
  // As Database::open, with the system calls that change files given.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& directory, DatabaseOptions options,
                                                std::unique_ptr<FileOps> ops);

  const std::filesystem::path& directory() const override { return root_.path(); }
  Result<std::optional<Record>> find(const std::string& id) override;
  Result<std::vector<Record>> list(std::vector<Damage>* damage) override;
  Result<Lookup> look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) override;
  Result<void> publish(const Record& record) override;
  Result<StoredKernel> store_kernel(const Artifact& artifact, const std::string& log) override;
  Result<std::optional<Artifact>> load_kernel(const StoredKernel& kernel) override;
  Result<std::optional<Artifact>> find_kernel(const std::string& artifact_key) override;
  Result<void> store_trials(const TrialLog& log) override;
  Result<std::optional<TrialLog>> find_trials(const Record& record) override;
  Result<MergeCounts> merge(const std::vector<MergeEntry>& entries) override;
  void warn(const std::string& kind, const std::string& message) override;
  Result<std::vector<Damage>> check() override;
  std::optional<Damage> unfinished_merge() const override;

 private:
  DirectoryDatabase(Directory root, DatabaseOptions options, std::unique_ptr<FileOps> ops)
      : root_(std::move(root)), options_(std::move(options)), ops_(std::move(ops)) {}

  Result<void> open_parts();
  void open_trials();
  Result<void> check_writable() const;
  Result<void> publish_file(const Record& record, const std::string& json);
  Result<void> refresh();  // brings index_ up to date; mutex_ held
  void write_index();      // index.json; mutex_ held
  void keep_to_limit(std::int64_t stored_bytes);
  Result<MergeCounts> put_in_place(const std::vector<MergeEntry>& entries);
  Result<void> take_trials(const TrialLog& log, const Record& record);
  Result<void> finish_stopped_merge();
  Result<void> finish_pending();
  Result<std::optional<std::vector<MergeEntry>>> read_pending() const;
  std::optional<Damage> damaged_pending() const;
  void warn(const std::string& kind, const Error& error) { warn(kind, error.message + "; " + error.remedy); }

  Directory root_;
  DatabaseOptions options_;
  std::unique_ptr<FileOps> ops_;
  std::optional<Directory> records_, kernels_;  // none: not there, and this database is read only
  std::optional<RecordFiles> record_files_;
  std::optional<KernelFiles> kernel_files_;
  std::optional<Directory> trials_;  // none: not there, or it cannot be used
  std::optional<TrialFiles> trial_files_;

  // Stored by this process since it last looked whether kernels/ is within its limit; the first store looks.
  std::atomic<std::int64_t> unchecked_bytes_{std::numeric_limits<std::int64_t>::max()};

  std::mutex mutex_;  // of record_files_ and index_
  RecordIndex index_;
  std::mutex warn_mutex_;  // of warned_
  std::set<std::string> warned_;
};

}  // namespace headnorm
