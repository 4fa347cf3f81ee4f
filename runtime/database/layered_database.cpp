#include "runtime/database/layered_database.h"

#include <algorithm>

namespace headnorm {
namespace {

class LayeredDatabase final : public Database {
 public:
  LayeredDatabase(std::unique_ptr<Database> user, std::shared_ptr<ShippedTables> tables,
                  std::function<void(const std::string&)> warn)
      : user_(std::move(user)), tables_(std::move(tables)), warn_(std::move(warn)) {}

  const std::filesystem::path& directory() const override { return user_ ? user_->directory() : none_; }
  Result<std::optional<Record>> find(const std::string& id) override {
    return user_ ? user_->find(id) : Result<std::optional<Record>>(std::optional<Record>());
  }
  Result<std::vector<Record>> list(std::vector<Damage>* damage) override {
    return user_ ? user_->list(damage) : Result<std::vector<Record>>(tables_->list());
  }

  Result<Lookup> look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) override {
    HEADNORM_TRY(Lookup shipped, tables_->look_up(spec, rows, device));
    if (!user_) return shipped;
    HEADNORM_TRY(Lookup own, user_->look_up(spec, rows, device));
    return rank(shipped) < rank(own) ? shipped : own;
  }

  Result<void> publish(const Record& record) override { return user_ ? user_->publish(record) : Result<void>(keeps_nothing()); }
  Result<StoredKernel> store_kernel(const Artifact& artifact, const std::string& log) override {
    return user_ ? user_->store_kernel(artifact, log) : Result<StoredKernel>(keeps_nothing());
  }
  Result<void> store_trials(const TrialLog& log) override { return user_ ? user_->store_trials(log) : Result<void>(); }
  Result<std::optional<TrialLog>> find_trials(const Record& record) override {
    return user_ ? user_->find_trials(record) : Result<std::optional<TrialLog>>(std::optional<TrialLog>());
  }
  Result<MergeCounts> merge(const std::vector<MergeEntry>& entries) override {
    return user_ ? user_->merge(entries) : Result<MergeCounts>(keeps_nothing());
  }
  Result<std::optional<Artifact>> load_kernel(const StoredKernel& kernel) override {
    return user_ ? user_->load_kernel(kernel) : Result<std::optional<Artifact>>(std::optional<Artifact>());
  }
  Result<std::optional<Artifact>> find_kernel(const std::string& artifact_key) override {
    return user_ ? user_->find_kernel(artifact_key) : Result<std::optional<Artifact>>(std::optional<Artifact>());
  }
  void warn(const std::string& kind, const std::string& message) override {
    if (user_) return user_->warn(kind, message);
    if (warn_) warn_(message);
  }
  Result<std::vector<Damage>> check() override {
    return user_ ? user_->check() : Result<std::vector<Damage>>(std::vector<Damage>());
  }
  std::optional<Damage> unfinished_merge() const override { return user_ ? user_->unfinished_merge() : std::nullopt; }

 private:
  // As RecordIndex has it: an emulated record comes after every other one of this device and spec.
  static double rank(const Lookup& lookup) {
    const bool emulated = lookup.record && lookup.record->evidence == Evidence::emulated;
    const auto place = static_cast<double>(lookup.served);
    return emulated ? std::max(place, static_cast<double>(Served::predicted_rows) + 0.5) : place;
  }
  static Error keeps_nothing() {
    return environment_error("there is no database to write to", "name a directory that you may write with --db or HEADNORM_DB");
  }

  std::unique_ptr<Database> user_;
  std::shared_ptr<ShippedTables> tables_;
  std::function<void(const std::string&)> warn_;
  std::filesystem::path none_;
};

}  // namespace

std::unique_ptr<Database> add_shipped_tables(std::unique_ptr<Database> user, std::shared_ptr<ShippedTables> tables,
                                             std::function<void(const std::string&)> warn) {
  return std::make_unique<LayeredDatabase>(std::move(user), std::move(tables), std::move(warn));
}

Result<std::unique_ptr<Database>> open_layered_database(const std::filesystem::path& directory, DatabaseOptions options) {
  const auto warn = options.warn;
  HEADNORM_TRY(std::unique_ptr<Database> user, Database::open(directory, std::move(options)));
  const std::optional<std::filesystem::path> tables = find_shipped_tables();
  if (!tables) return user;
  return add_shipped_tables(std::move(user), std::make_shared<ShippedTables>(*tables, warn));
}

}  // namespace headnorm
