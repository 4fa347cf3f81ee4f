#include "runtime/database/trial_files.h"

#include <fmt/format.h>

#include "runtime/database/record_files.h"

namespace headnorm {

Result<void> TrialFiles::store(FileOps& ops, const TrialLog& log) const {
  const std::string json = to_json(log);
  // What could not be read back must not be written.
  if (const Result<TrialLog> read = trial_log_from_json(json); !read.ok())
    return internal_error(fmt::format("trials that cannot be stored: {}", read.error().message));
  return trials_.publish(ops, record_file_name(log.record_id), json);
}

Result<std::optional<TrialLog>> TrialFiles::read(const std::string& name) const {
  HEADNORM_TRY(const std::optional<std::string> text, trials_.read(name, kMostTrialLogBytes));
  if (!text.has_value()) return std::optional<TrialLog>();
  HEADNORM_TRY(TrialLog log, trial_log_from_json(*text));
  if (name != record_file_name(log.record_id))
    return user_error(fmt::format("holds the trials of record {}, which its name is not", log.record_id), "delete the file");
  return std::optional<TrialLog>(std::move(log));
}

Result<std::optional<TrialLog>> TrialFiles::find(const Record& record) const {
  HEADNORM_TRY(std::optional<TrialLog> log, read(record_file_name(record.id)));
  if (log.has_value() && !log->belongs_to(record)) log.reset();
  return log;
}

Result<std::vector<Damage>> TrialFiles::check() const {
  HEADNORM_TRY(const std::vector<std::string> names, trials_.names());
  std::vector<Damage> damage;
  for (const std::string& name : names) {
    if (const Result<std::optional<TrialLog>> log = read(name); !log.ok())
      damage.push_back({"trials/" + name, log.error().message});
  }
  return damage;
}

}  // namespace headnorm
