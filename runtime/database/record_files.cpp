#include "runtime/database/record_files.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "runtime/database/sealed_json.h"

namespace headnorm {
namespace {

constexpr std::int64_t kSecond_ns = 1'000'000'000;
constexpr std::int64_t kSettle_ns = 2 * kSecond_ns;  // the coarsest time stamps of file systems in use

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond_ns + time.tv_nsec; }

}  // namespace

std::string record_file_name(const std::string& id) { return id + ".json"; }

Result<std::optional<Record>> read_record_file(const Directory& records, const std::string& name) {
  HEADNORM_TRY(const std::optional<std::string> text, records.read(name, sealed_json::kMaxBytes));
  if (!text.has_value()) return std::optional<Record>();
  HEADNORM_TRY(Record record, record_from_json(*text));
  if (name != record_file_name(record.id))
    return user_error(fmt::format("holds record {}, which its name is not", record.id), "delete the file");
  return std::optional<Record>(std::move(record));
}

bool RecordFiles::Stamp::still_true(const Stamp& now) const {
  return settled && inode == now.inode && size == now.size && modified_ns == now.modified_ns && changed_ns == now.changed_ns;
}

RecordFiles::Stamp RecordFiles::make_stamp(const struct stat& facts) {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  Stamp stamp;
  stamp.inode = facts.st_ino;
  stamp.size = facts.st_size;
  stamp.modified_ns = nanoseconds(facts.st_mtim);
  stamp.changed_ns = nanoseconds(facts.st_ctim);
  stamp.settled = nanoseconds(now) - std::max(stamp.modified_ns, stamp.changed_ns) > kSettle_ns;
  return stamp;
}

std::optional<RecordFiles::File> RecordFiles::read(const std::string& name, const Stamp& stamp) const {
  Result<std::optional<Record>> record = read_record_file(records_, name);
  if (!record.ok()) return File{stamp, nullptr, record.error().message};
  if (!record->has_value()) return std::nullopt;
  return File{stamp, std::make_shared<const Record>(std::move(**record)), ""};
}

Result<bool> RecordFiles::refresh() {
  struct stat facts = {};
  if (::fstat(records_.descriptor(), &facts) != 0)
    return environment_error(fmt::format("cannot examine '{}': {}", records_.path().string(), errno_text(errno)),
                             "name another database with --db");
  Stamp stamp = make_stamp(facts);
  if (stamp_.still_true(stamp)) return false;

  HEADNORM_TRY(const std::vector<std::string> names, records_.names());
  bool changed = false;
  std::map<std::string, File> files;
  for (const std::string& name : names) {
    struct stat file_facts = {};
    if (::fstatat(records_.descriptor(), name.c_str(), &file_facts, AT_SYMLINK_NOFOLLOW) != 0) continue;  // removed since
    const Stamp file_stamp = make_stamp(file_facts);
    const auto known = files_.find(name);
    if (known != files_.end() && known->second.stamp.still_true(file_stamp)) {
      files.insert(files_.extract(known));
      continue;
    }
    std::optional<File> file = read(name, file_stamp);
    if (!file.has_value()) {  // removed since, or, on a network file system, not to be seen yet: looked for again next time
      stamp.settled = false;
      continue;
    }
    changed = true;
    files.emplace(name, *std::move(file));
  }
  changed = changed || !files_.empty();  // what is left there was removed
  files_ = std::move(files);
  stamp_ = stamp;
  return changed;
}

std::vector<std::shared_ptr<const Record>> RecordFiles::records() const {
  std::vector<std::shared_ptr<const Record>> records;
  for (const auto& [name, file] : files_) {
    if (file.record != nullptr) records.push_back(file.record);
  }
  return records;
}

std::vector<Damage> RecordFiles::damage() const {
  std::vector<Damage> damage;
  for (const auto& [name, file] : files_) {
    if (file.record == nullptr) damage.push_back({"records/" + name, file.reason});
  }
  return damage;
}

}  // namespace headnorm
