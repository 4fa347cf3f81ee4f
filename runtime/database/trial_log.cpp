#include "runtime/database/trial_log.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "core/digest.h"
#include "runtime/database/sealed_json.h"

namespace headnorm {
namespace {

using sealed_json::Json;
using sealed_json::Reader;

constexpr int kFormat = 1;
constexpr std::size_t kDigestDigits = 64;

Error refused(std::string message) { return user_error(std::move(message), "delete the file: the record is whole without it"); }

Json trial_json(const Trial& trial) {
  return {{"schedule", trial.schedule},   {"time_us", trial.time_us},      {"samples_us", trial.samples_us},
          {"failure", trial.failure},     {"message", trial.message},      {"compile_ms", trial.compile_ms},
          {"verify_ms", trial.verify_ms}, {"measure_ms", trial.measure_ms}};
}

Result<std::vector<double>> read_samples(const Json& list) {
  if (list.size() > TrialLog::kMostSamples)
    return refused(fmt::format("{} samples of a trial, more than {}", list.size(), TrialLog::kMostSamples));
  std::vector<double> samples;
  for (const Json& sample : list) {
    if (!sample.is_number() || !std::isfinite(sample.get<double>()) || sample.get<double>() < 0)
      return refused("a sample of a trial is not a finite number of at least 0");
    samples.push_back(sample.get<double>());
  }
  return samples;
}

Result<Trial> read_trial(const Json& json) {
  if (!json.is_object()) return refused("a trial is not an object");
  Reader fields(json, "trial");
  Trial trial;
  HEADNORM_TRY(trial.schedule, fields.text("schedule"));
  HEADNORM_TRY(trial.time_us, fields.number("time_us"));
  HEADNORM_TRY(const Json* samples, fields.array("samples_us"));
  HEADNORM_TRY(trial.samples_us, read_samples(*samples));
  HEADNORM_TRY(trial.failure, fields.text("failure"));
  HEADNORM_TRY(trial.message, fields.text("message"));
  HEADNORM_TRY(trial.compile_ms, fields.number("compile_ms"));
  HEADNORM_TRY(trial.verify_ms, fields.number("verify_ms"));
  HEADNORM_TRY(trial.measure_ms, fields.number("measure_ms"));
  HEADNORM_CHECK(fields.finish());
  HEADNORM_CHECK(parse_schedule(trial.schedule));
  if (trial.failure.empty() != (trial.time_us > 0)) return refused("a trial has neither or both of a time and a failure");
  return trial;
}

}  // namespace

bool TrialLog::belongs_to(const Record& record) const {
  return record_id == record.id && record_digest == headnorm::record_digest(record);
}

std::string record_digest(const Record& record) {
  Record bare = record;
  bare.kernel = {};
  return sha256_hex(to_json(bare));
}

std::string to_json(const TrialLog& log) {
  Json trials = Json::array();
  for (const Trial& trial : log.trials) trials.push_back(trial_json(trial));
  return sealed_json::write(
      {{"format", kFormat}, {"record", log.record_id}, {"record_sha256", log.record_digest}, {"trials", trials}},
      sealed_json::Layout::compact);
}

Result<TrialLog> trial_log_from_json(std::string_view text) {
  HEADNORM_TRY(const Json json, sealed_json::read(text, kMostTrialLogBytes));
  Reader fields(json, "trial log");
  HEADNORM_TRY(const std::int64_t format, fields.integer("format", 0, kFormat));
  if (format != kFormat) return refused(fmt::format("format {} of the trials is not {}", format, kFormat));
  TrialLog log;
  HEADNORM_TRY(log.record_id, fields.hex("record", kRecordIdDigits));
  HEADNORM_TRY(log.record_digest, fields.hex("record_sha256", kDigestDigits));
  HEADNORM_TRY(const Json* trials, fields.array("trials"));
  HEADNORM_CHECK(fields.finish());
  if (trials->size() > TrialLog::kMostTrials)
    return refused(fmt::format("{} trials, more than {}", trials->size(), TrialLog::kMostTrials));
  std::set<std::string> schedules;
  for (const Json& entry : *trials) {
    HEADNORM_TRY(Trial trial, read_trial(entry));
    if (!schedules.insert(trial.schedule).second) return refused(fmt::format("'{}' is tried twice", trial.schedule));
    log.trials.push_back(std::move(trial));
  }
  return log;
}

}  // namespace headnorm
