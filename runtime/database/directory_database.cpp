#include "runtime/database/directory_database.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "core/counted.h"
#include "runtime/database/kernel_limit.h"
#include "runtime/database/sealed_json.h"

namespace headnorm {
namespace {

constexpr const char* kIndexName = "index.json";
constexpr const char* kPendingName = "pending.json";

// Creates `path` and what is missing above it.
Result<void> make_directories(FileOps& ops, const std::filesystem::path& path) {
  std::filesystem::path prefix;
  for (const std::filesystem::path& component : path) {
    prefix /= component;
    if (struct stat facts = {}; ::stat(prefix.c_str(), &facts) == 0) continue;
    const int status = ops.make_directory(AT_FDCWD, prefix.c_str());
    if (status < 0 && status != -EEXIST)
      return environment_error(fmt::format("cannot create the database directory '{}': {}", prefix.string(), errno_text(-status)),
                               "name a directory that you may write with --db or HEADNORM_DB");
  }
  return {};
}

sealed_json::Json index_entry(const Record& record) {
  return {{"id", record.id},
          {"spec", to_text(record.spec)},
          {"rows", record.rows},
          {"device", {{"kind", record.device.kind}, {"name", record.device.name}, {"units", record.device.units}}},
          {"target", to_text(record.device.target)},
          {"policy", to_text(record.policy)},
          {"evidence", to_text(record.evidence)},
          {"schedule", to_text(record.schedule)},
          {"median_us", record.time.median_us}};
}

}  // namespace

Result<std::unique_ptr<Database>> DirectoryDatabase::open(const std::filesystem::path& directory, DatabaseOptions options,
                                                          std::unique_ptr<FileOps> ops) {
  if (directory.empty()) return user_error("the database directory is an empty path", "name a directory with --db");
  std::error_code failed;  // only where the current directory is gone; a relative path then serves as well
  std::filesystem::path path = std::filesystem::absolute(directory, failed).lexically_normal();
  if (failed) path = directory;
  if (!options.read_only) HEADNORM_CHECK(make_directories(*ops, path));
  HEADNORM_TRY(std::optional<Directory> root, Directory::open(AT_FDCWD, path.string(), path, Trust::data));
  if (!root.has_value())
    return environment_error(fmt::format("there is no database at '{}'", path.string()),
                             "fill one with `headnorm tune --db`, or name another directory with --db");
  std::unique_ptr<DirectoryDatabase> database(new DirectoryDatabase(std::move(*root), std::move(options), std::move(ops)));
  HEADNORM_CHECK(database->open_parts());
  return std::unique_ptr<Database>(std::move(database));
}

Result<void> DirectoryDatabase::open_parts() {
  for (const char* name : {"records", "kernels"}) {
    if (options_.read_only) break;
    const int status = ops_->make_directory(root_.descriptor(), name);
    if (status >= 0 || status == -EEXIST) continue;
    options_.read_only = true;
    warn("read only", fmt::format("cannot create '{}' ({}): the database is used read only, and nothing new is remembered",
                                  (root_.path() / name).string(), errno_text(-status)));
  }
  HEADNORM_TRY(records_, Directory::open(root_.descriptor(), "records", root_.path() / "records", Trust::data));
  HEADNORM_TRY(kernels_, Directory::open(root_.descriptor(), "kernels", root_.path() / "kernels", Trust::code));
  if (records_.has_value()) record_files_.emplace(*records_);
  if (kernels_.has_value()) kernel_files_.emplace(*kernels_);
  open_trials();
  if (options_.read_only) return {};
  for (const Directory* part : {&root_, &*records_, &*kernels_}) part->remove_stale_temporaries(*ops_);
  if (const Result<void> finished = finish_stopped_merge(); !finished.ok()) warn("merge", finished.error());
  return {};
}

// Nothing that is served depends on it, so that no trouble with it is an error.
void DirectoryDatabase::open_trials() {
  constexpr const char* kName = "trials";
  if (!options_.read_only) ops_->make_directory(root_.descriptor(), kName);
  Result<std::optional<Directory>> opened = Directory::open(root_.descriptor(), kName, root_.path() / kName, Trust::unlinked);
  if (!opened.ok()) return warn("trials", opened.error());
  trials_ = *std::move(opened);
  if (!trials_.has_value()) return;
  trial_files_.emplace(*trials_);
  if (!options_.read_only) trials_->remove_stale_temporaries(*ops_);
}

void DirectoryDatabase::warn(const std::string& kind, const std::string& message) {
  {
    const std::lock_guard lock(warn_mutex_);
    if (!warned_.insert(kind).second) return;
  }
  if (options_.warn) options_.warn(message);
}

Result<void> DirectoryDatabase::check_writable() const {
  if (!options_.read_only) return {};
  return environment_error(fmt::format("the database '{}' is open read only", directory().string()),
                           "name a directory that you may write with --db or HEADNORM_DB");
}

Result<void> DirectoryDatabase::refresh() {
  if (!record_files_.has_value()) return {};
  HEADNORM_TRY(const bool changed, record_files_->refresh());
  if (!changed) return {};
  index_.clear();
  for (std::shared_ptr<const Record>& record : record_files_->records()) index_.add(std::move(record));
  const std::vector<Damage> damage = record_files_->damage();
  if (!damage.empty())
    warn("record", fmt::format("{} of '{}' is passed over: {}; `headnorm db check` lists all damage", damage[0].file,
                               directory().string(), damage[0].reason));
  return {};
}

Result<std::optional<Record>> DirectoryDatabase::find(const std::string& id) {
  if (!records_.has_value() || !sealed_json::is_hex(id, kRecordIdDigits)) return std::optional<Record>();
  Result<std::optional<Record>> record = read_record_file(*records_, record_file_name(id));
  if (record.ok()) return record;
  warn("record", fmt::format("record {} of '{}' is passed over: {}", id, directory().string(), record.error().message));
  return std::optional<Record>();
}

Result<std::vector<Record>> DirectoryDatabase::list(std::vector<Damage>* damage) {
  const std::lock_guard lock(mutex_);
  HEADNORM_CHECK(refresh());
  std::vector<Record> records;
  if (!record_files_.has_value()) return records;
  for (const std::shared_ptr<const Record>& record : record_files_->records()) records.push_back(*record);
  const auto order = [](const Record& record) {
    return std::make_tuple(to_text(record.spec), record.rows, record.device.kind, record.device.name, to_text(record.device.target),
                           record.device.units, record.policy);
  };
  std::sort(records.begin(), records.end(), [&](const Record& a, const Record& b) { return order(a) < order(b); });
  if (damage != nullptr) *damage = record_files_->damage();
  return records;
}

Result<Lookup> DirectoryDatabase::look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) {
  const std::lock_guard lock(mutex_);
  // Records that cannot be read any more do not stop the caller: what is in memory, or the default, serves.
  if (const Result<void> fresh = refresh(); !fresh.ok()) warn("unreadable", fresh.error());
  return index_.look_up(spec, rows, device);
}

Result<void> DirectoryDatabase::publish(const Record& record) {
  const std::string json = to_json(record);
  // What could not be read back must not be written.
  if (const Result<Record> read = record_from_json(json); !read.ok())
    return internal_error(fmt::format("a record that cannot be stored: {}", read.error().message));
  HEADNORM_CHECK(check_writable());
  const std::lock_guard lock(mutex_);
  if (Result<void> published = publish_file(record, json); !published.ok()) {
    warn("write", published.error());
    return published;
  }
  write_index();
  return {};
}

Result<void> DirectoryDatabase::publish_file(const Record& record, const std::string& json) {
  const Result<Descriptor> lock = records_->lock(*ops_);  // between the look at the present record and its replacement
  if (!lock.ok()) warn("lock", lock.error());
  const std::string name = record_file_name(record.id);
  const Result<std::optional<Record>> present = read_record_file(*records_, name);
  if (present.ok() && present->has_value() && (*present)->evidence < record.evidence) return {};
  return records_->publish(*ops_, name, json);
}

void DirectoryDatabase::write_index() {
  Result<void> done = refresh();
  if (done.ok()) {
    sealed_json::Json entries = sealed_json::Json::array();
    for (const std::shared_ptr<const Record>& record : record_files_->records()) entries.push_back(index_entry(*record));
    done = root_.publish(*ops_, kIndexName, sealed_json::write({{"format", 1}, {"records", entries}}));
  }
  if (!done.ok()) warn("index", done.error());
}

Result<StoredKernel> DirectoryDatabase::store_kernel(const Artifact& artifact, const std::string& log) {
  HEADNORM_CHECK(check_writable());
  Result<StoredKernel> stored = kernel_files_->store(*ops_, artifact, log);
  if (!stored.ok()) warn("write", stored.error());
  if (stored.ok()) keep_to_limit(static_cast<std::int64_t>(artifact.bytes.size()));
  return stored;
}

// Looking at every file takes time: it is done for each sixteenth of the limit.
void DirectoryDatabase::keep_to_limit(std::int64_t stored_bytes) {
  std::int64_t before = unchecked_bytes_.load(), after = 0;
  do {
    const bool first = before == std::numeric_limits<std::int64_t>::max();
    after = first || before + stored_bytes > options_.kernel_limit.bytes / 16 ? 0 : before + stored_bytes;
  } while (!unchecked_bytes_.compare_exchange_weak(before, after));
  if (after != 0) return;
  if (const Result<Collected> kept = collect_kernels(*ops_, *kernels_, options_.kernel_limit); !kept.ok())
    warn("limit", kept.error());
}

Result<std::optional<Artifact>> DirectoryDatabase::load_kernel(const StoredKernel& kernel) {
  if (!kernel_files_.has_value() || kernel.sha256.empty()) return std::optional<Artifact>();
  Result<std::optional<Artifact>> artifact = kernel_files_->load(kernel);
  if (artifact.ok()) return artifact;
  warn("kernel", fmt::format("a stored kernel of '{}' is passed over: {}", directory().string(), artifact.error().message));
  return std::optional<Artifact>();
}

Result<std::optional<Artifact>> DirectoryDatabase::find_kernel(const std::string& artifact_key) {
  if (!kernel_files_.has_value()) return std::optional<Artifact>();
  Result<std::optional<Artifact>> artifact = kernel_files_->find(artifact_key);
  if (artifact.ok() && artifact->has_value() && !options_.read_only) mark_used(*ops_, *kernels_, artifact_key);
  if (artifact.ok()) return artifact;
  warn("kernel", fmt::format("a stored kernel of '{}' is passed over: {}", directory().string(), artifact.error().message));
  return std::optional<Artifact>();
}

Result<void> DirectoryDatabase::store_trials(const TrialLog& log) {
  HEADNORM_CHECK(check_writable());
  if (!trial_files_.has_value()) return {};
  Result<void> stored = trial_files_->store(*ops_, log);
  if (!stored.ok()) warn("trials", stored.error());
  return stored;
}

Result<std::optional<TrialLog>> DirectoryDatabase::find_trials(const Record& record) {
  if (!trial_files_.has_value()) return std::optional<TrialLog>();
  Result<std::optional<TrialLog>> log = trial_files_->find(record);
  if (log.ok()) return log;
  warn("trials", fmt::format("the trials of record {} are passed over: {}", record.id, log.error().message));
  return std::optional<TrialLog>();
}

Result<MergeCounts> DirectoryDatabase::merge(const std::vector<MergeEntry>& entries) {
  HEADNORM_CHECK(check_writable());
  const std::string pending = pending_to_json(entries);
  if (pending.size() > kMostPendingBytes)
    return user_error(fmt::format("the merge takes {} bytes, more than {}", pending.size(), kMostPendingBytes),
                      "merge in several parts: it comes to the same");
  // What could not be read back must not be written.
  if (const Result<std::vector<MergeEntry>> read = pending_from_json(pending); !read.ok())
    return internal_error(fmt::format("records that cannot be stored: {}", read.error().message));
  const std::lock_guard lock(mutex_);
  const Result<Descriptor> one_merge = root_.lock(*ops_);
  if (!one_merge.ok()) warn("lock", one_merge.error());
  if (one_merge.ok() && !one_merge->valid())
    return environment_error(fmt::format("another process merges into '{}'", directory().string()), "merge when it is done");
  HEADNORM_CHECK(finish_pending());
  HEADNORM_CHECK(root_.publish(*ops_, kPendingName, pending));
  const Result<MergeCounts> counts = put_in_place(entries);
  if (!counts.ok())
    return Error{counts.error().kind, fmt::format("{}; the rest of the merge is kept in {}", counts.error().message, kPendingName),
                 counts.error().remedy + ": whoever opens the database for writing next finishes the merge"};
  ops_->remove(root_.descriptor(), kPendingName);  // where it stays, it is done again and changes nothing
  write_index();
  return counts;
}

Result<MergeCounts> DirectoryDatabase::put_in_place(const std::vector<MergeEntry>& entries) {
  const Result<Descriptor> lock = records_->lock(*ops_);
  if (!lock.ok()) warn("lock", lock.error());
  MergeCounts counts;
  for (const MergeEntry& entry : entries) {
    const std::string name = record_file_name(entry.record.id);
    const Result<std::optional<Record>> present = read_record_file(*records_, name);
    const bool is_there = present.ok() && present->has_value();
    const bool stays = is_there && !is_better(entry.record, **present);
    if (entry.trials && trial_files_.has_value()) HEADNORM_CHECK(take_trials(*entry.trials, stays ? **present : entry.record));
    if (stays) {
      ++counts.kept;
      continue;
    }
    HEADNORM_CHECK(records_->publish(*ops_, name, to_json(entry.record)));
    ++(is_there ? counts.replaced : counts.added);
  }
  return counts;
}

// Of several logs of one record the one with the smaller text: so it does not matter which comes first.
Result<void> DirectoryDatabase::take_trials(const TrialLog& log, const Record& record) {
  if (!log.belongs_to(record)) return {};
  const Result<std::optional<TrialLog>> present = trial_files_->find(record);
  if (present.ok() && present->has_value() && to_json(**present) <= to_json(log)) return {};
  return trial_files_->store(*ops_, log);
}

// Of a process that is no more; one that is at work has the lock, and finishes itself.
Result<void> DirectoryDatabase::finish_stopped_merge() {
  if (!root_.examine(kPendingName)) return {};
  const Result<Descriptor> one_merge = root_.lock(*ops_);
  if (one_merge.ok() && !one_merge->valid()) return {};
  return finish_pending();
}

// Of a merge whose process was stopped after it had written down what it merges.
Result<void> DirectoryDatabase::finish_pending() {
  HEADNORM_TRY(const std::optional<std::string> text, root_.read(kPendingName, kMostPendingBytes));
  if (!text.has_value()) return {};
  const Result<std::vector<MergeEntry>> entries = pending_from_json(*text);
  // Nothing of ours: a whole file was renamed into place.
  if (!entries.ok())
    return user_error(fmt::format("{} of '{}' is passed over: {}", kPendingName, directory().string(), entries.error().message),
                      "delete it");
  HEADNORM_CHECK(put_in_place(*entries));
  ops_->remove(root_.descriptor(), kPendingName);
  write_index();
  return {};
}

// None: there is no merge on its way.
Result<std::optional<std::vector<MergeEntry>>> DirectoryDatabase::read_pending() const {
  HEADNORM_TRY(const std::optional<std::string> text, root_.read(kPendingName, kMostPendingBytes));
  if (!text.has_value()) return std::optional<std::vector<MergeEntry>>();
  HEADNORM_TRY(std::vector<MergeEntry> entries, pending_from_json(*text));
  return std::optional(std::move(entries));
}

// A pending.json that nobody can finish, and that keeps merges from beginning.
std::optional<Damage> DirectoryDatabase::damaged_pending() const {
  const auto entries = read_pending();
  if (entries.ok()) return std::nullopt;
  return Damage{kPendingName, entries.error().message + "; no merge begins before it is deleted: delete it, and merge again"};
}

std::optional<Damage> DirectoryDatabase::unfinished_merge() const {
  const auto entries = read_pending();
  if (!entries.ok() || !entries->has_value()) return std::nullopt;
  return Damage{kPendingName, fmt::format("a merge of {} that has not ended: if no process is at work on it, the next command that "
                                          "opens the database to write finishes it (headnorm db merge, tune or run)",
                                          counted((*entries)->size(), "record"))};
}

Result<std::vector<Damage>> DirectoryDatabase::check() {
  std::vector<Damage> damage;
  if (records_.has_value()) {
    RecordFiles all(*records_);  // none of it remembered: every file is read
    HEADNORM_CHECK(all.refresh());
    damage = all.damage();
  }
  if (kernel_files_.has_value()) {
    HEADNORM_TRY(const std::vector<Damage> kernels, kernel_files_->check());
    damage.insert(damage.end(), kernels.begin(), kernels.end());
  }
  if (trial_files_.has_value()) {
    HEADNORM_TRY(const std::vector<Damage> trials, trial_files_->check());
    damage.insert(damage.end(), trials.begin(), trials.end());
  }
  if (std::optional<Damage> pending = damaged_pending()) damage.push_back(*std::move(pending));
  if (!options_.read_only) {
    const std::lock_guard lock(mutex_);
    write_index();
  }
  return damage;
}

}  // namespace headnorm
