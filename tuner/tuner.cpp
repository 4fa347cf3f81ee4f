#include "tuner/tuner.h"

#include <fmt/format.h>

#include "tuner/search.h"
#include "tuner/tune_lock.h"

namespace headnorm {
namespace {

Result<void> check_request(const TuneRequest& request) {
  if (request.rows.empty()) return user_error("no row count to tune for", "give --rows R,R,...");
  for (std::int64_t rows : request.rows) {
    if (rows < 1) return user_error(fmt::format("a row count of {} is below 1", rows), "give row counts of 1 or more");
  }
  if (!(request.budget_s > 0))
    return user_error(fmt::format("a budget of {} s is not above 0", request.budget_s), "give --budget 60s");
  return {};
}

// The holder's number is 0 for a moment after it took the lock.
std::string waiting_text(int holder_pid, const std::filesystem::path& database) {
  const std::string holder = holder_pid > 0 ? fmt::format("process {}", holder_pid) : "another process";
  return fmt::format("waiting for {}, which tunes into '{}'", holder, database.string());
}

Result<TuneLock> acquire_lock(const TuneServices& services) {
  bool said = false;
  return TuneLock::acquire(services.database.directory(), [&](int holder_pid) {
    if (services.stop_requested && services.stop_requested()) return false;
    if (services.warn && !said) services.warn(waiting_text(holder_pid, services.database.directory()));
    said = true;
    TuneProgress progress;
    progress.phase = TunePhase::waiting;
    progress.holder_pid = holder_pid;
    if (services.progress) services.progress(progress);
    return true;
  });
}

Result<std::optional<Record>> find_stored(const TuneRequest& request, const TuneServices& services, std::int64_t rows) {
  if (request.retune == Retune::always) return std::optional<Record>();
  const std::string id = record_id(request.spec, rows, services.device.info(), request.policy);
  HEADNORM_TRY(std::optional<Record> record, services.database.find(id));
  if (record && record->evidence == Evidence::predicted) record.reset();
  return record;
}

// The tuned row, or none if the search was interrupted.
Result<std::optional<TunedRow>> tune_row(const TuneRequest& request, const TuneServices& services, std::int64_t rows,
                                         double budget_s) {
  HEADNORM_TRY(std::optional<Record> stored, find_stored(request, services, rows));
  if (stored) return std::optional(TunedRow{*std::move(stored), TunedRow::Origin::stored});
  Search search(request, services, rows, budget_s);
  HEADNORM_TRY(std::optional<Record> record, search.run());
  if (!record) return std::optional<TunedRow>();
  HEADNORM_CHECK(services.database.publish(*record));
  search.finish();
  return std::optional(TunedRow{*std::move(record), TunedRow::Origin::tuned});
}

}  // namespace

const char* to_text(TunePhase phase) {
  constexpr const char* kNames[] = {"waiting", "preparing", "screening", "finals"};
  return kNames[static_cast<int>(phase)];
}

Result<TuneReport> tune(const TuneRequest& request, const TuneServices& services) {
  HEADNORM_CHECK(check_request(request));
  TuneRequest canonical = request;
  HEADNORM_TRY(canonical.spec, make_spec(request.spec));
  TuneReport report;
  HEADNORM_TRY(const TuneLock lock, acquire_lock(services));
  const double deadline_s = services.now_s() + request.budget_s;
  for (std::size_t i = 0; i < request.rows.size() && lock.held(); ++i) {
    // What one row count leaves of its share goes to the others.
    const double share_s = std::max(0.0, deadline_s - services.now_s()) / static_cast<double>(request.rows.size() - i);
    HEADNORM_TRY(std::optional<TunedRow> row, tune_row(canonical, services, request.rows[i], share_s));
    if (!row) break;
    report.results.push_back(*std::move(row));
  }
  report.interrupted = report.results.size() < request.rows.size();
  return report;
}

}  // namespace headnorm
