// tune: searches, verifies and measures schedules of a shape, and stores the best.
#include <fmt/format.h>

#include <chrono>

#include "cli/assembler.h"
#include "cli/backend_option.h"
#include "cli/database_option.h"
#include "cli/device_models.h"
#include "cli/device_option.h"
#include "cli/interrupt.h"
#include "cli/model_tuning.h"
#include "cli/progress.h"
#include "cli/record_json.h"
#include "cli/reference.h"
#include "cli/shape_options.h"
#include "cli/table.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "core/counted.h"
#include "core/text.h"
#include "generator/generator.h"
#include "tuner/device_copy.h"
#include "tuner/host_copy.h"
#include "tuner/tuner.h"

namespace headnorm::cli {
namespace {

constexpr double kMostBudgetS = 30 * 24 * 3600.0;

// "60s", "500ms", "2m", "1h"; a number alone is seconds.
Result<double> parse_budget(const std::string& text) {
  const std::size_t unit_at = text.find_first_not_of("0123456789.eE+-");
  const std::string unit = unit_at == std::string::npos ? "s" : text.substr(unit_at);
  const std::pair<const char*, double> kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  for (const auto& [name, seconds] : kUnits) {
    if (unit != name) continue;
    const Result<double> count = text::parse_number(text.substr(0, unit_at), "--budget");
    if (!count.ok()) break;
    if (*count * seconds > 0 && *count * seconds <= kMostBudgetS) return *count * seconds;
    return user_error(fmt::format("--budget {} is not between 0 and 30 days", text), "give --budget 60s, say");
  }
  return user_error(fmt::format("--budget '{}' is not a number and a unit of time", text), "give --budget 60s, 500ms, 2m or 1h");
}

std::string progress_text(const TuneProgress& progress) {
  if (progress.phase == TunePhase::waiting)
    return fmt::format("waiting for process {}, which tunes into the same database", progress.holder_pid);
  std::string text =
      fmt::format("{}: {} {}/{}", counted(progress.rows, "row"), to_text(progress.phase), progress.done, progress.total);
  if (progress.best_us > 0) text += fmt::format(", best {:.2f} us", progress.best_us);
  if (progress.best_copy_ratio > 0) text += fmt::format(" ({:.2f} of a copy)", progress.best_copy_ratio);
  if (progress.eta_s > 0) text += fmt::format(", {:.0f} s to go", progress.eta_s);
  return text;
}

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// On the device itself: a copy elsewhere says nothing about it. An emulated device has no times to compare.
std::function<Result<std::unique_ptr<CopyReference>>(std::int64_t)> copy_maker(Device& device, CachePolicy policy) {
  if (device.info().kind == "emulator") return nullptr;
  if (device.info().target.kind == TargetKind::gpu)
    return [&device, policy](std::int64_t bytes) { return make_device_copy(device, policy, bytes); };
  return [&device, policy](std::int64_t bytes) { return make_host_copy(device.info(), policy, bytes); };
}

class TuneVerb final : public Verb {
 public:
  TuneVerb() { device_.models = Models::taken; }

  void declare(CLI::App& command) override {
    add_text_option(command, "--rows", rows_, "R,R,...", "row counts to tune for (the preset's)");
    device_.declare(command);
    backend_.declare(command);
    database_.declare(command);
    add_text_option(command, "--search", search_, "exhaustive|random", "every plan, or plans drawn at random (exhaustive)");
    add_text_option(command, "--budget", budget_, "TIME", "time for all row counts together (60s)");
    add_text_option(command, "--seed", seed_, "N", "of the data and of the order of candidates (1)");
    add_text_option(command, "--policy", policy_, "cold|warm", "caches between launches (cold)");
    add_flag(command, "--retune", retune_, "also what was measured before");
    shape_.declare(command);
  }

  Result<Report> run(const Context& context) override {
    HEADNORM_TRY(const TuneRequest request, make_request());
    if (is_model_device(device_.device)) return run_by_model(request, context);
    HEADNORM_TRY(const Reference reference, make_reference(request.spec));
    HEADNORM_TRY(const std::unique_ptr<Device> device, open_device(device_));
    HEADNORM_TRY(const std::unique_ptr<CodegenBackend> backend,
                 make_backend(backend_, device->info().target.kind, context.environment));
    HEADNORM_TRY(const std::unique_ptr<Database> database, open_database(database_, context, DatabaseNeed::write));
    const InterruptScope interrupt;
    ProgressLine line(context);
    TuneServices services{
        .device = *device,
        .backend = *backend,
        .database = *database,
        .reference = reference,
        .make_copy = nullptr,
        .now_s = seconds_now,
        .stop_requested = InterruptScope::requested,
        .progress = [&](const TuneProgress& progress) { line.update(progress_text(progress)); },
        .warn =
            [&](const std::string& text) {
              line.clear();
              print_warning(context, text);
            },
    };
    services.make_copy = copy_maker(*device, request.policy);
    const Result<TuneReport> tuned = tune(request, services);
    line.clear();
    if (!tuned.ok()) return tuned.error();
    return make_report(*tuned, *database);
  }

 private:
  Result<Report> run_by_model(const TuneRequest& request, const Context& context) const {
    HEADNORM_TRY(const GpuModel model, parse_model_device(device_.device));
    HEADNORM_TRY(const std::unique_ptr<Database> database, open_database(database_, context, DatabaseNeed::write));
    const InterruptScope interrupt;
    ModelTuning tuning{request, model, *database, find_assembler(context.environment), InterruptScope::requested, {}};
    tuning.warn = [&](const std::string& text) { print_warning(context, text); };
    HEADNORM_TRY(const TuneReport tuned, tune_by_model(tuning));
    return make_report(tuned, *database);
  }

  Result<TuneRequest> make_request() const {
    TuneRequest request;
    HEADNORM_TRY(const Shape shape, make_shape(shape_));
    request.spec = shape.spec;
    if (!rows_ && shape.preset == nullptr)
      return user_error("--rows is missing: how many rows a launch has decides the schedule", "give --rows 12608, say");
    request.rows = {shape.preset != nullptr ? shape.preset->rows : 0};
    if (rows_) {
      HEADNORM_TRY(request.rows, parse_rows(*rows_));
    }
    HEADNORM_TRY(request.policy, parse_cache_policy(policy_));
    HEADNORM_TRY(request.search, parse_search_kind(search_));
    HEADNORM_TRY(request.budget_s, parse_budget(budget_));
    HEADNORM_TRY(const std::int64_t seed, text::parse_integer(seed_, "--seed", "1"));
    if (seed < 0) return user_error(fmt::format("--seed {} is below 0", seed), "give 0 or more");
    request.seed = static_cast<std::uint64_t>(seed);
    request.retune = retune_ ? Retune::always : Retune::missing;
    request.tool = fmt::format("headnorm {}", HEADNORM_VERSION);
    return request;
  }

  static Report make_report(const TuneReport& tuned, const Database& database) {
    Report report;
    report.document["database"] = database.directory().string();
    report.document["results"] = Json::array();
    Table table({"record", ">rows", ">us", ">GB/s", ">x copy", ">verified", ">measured", "from"});
    for (const TunedRow& row : tuned.results) {
      const Record& record = row.record;
      const bool stored = row.origin == TunedRow::Origin::stored;
      report.document["results"].push_back(result_json(record));
      report.document["results"].back()["origin"] = stored ? "stored" : "tuned";
      table.add({record.id.substr(0, 8), fmt::to_string(record.rows), fmt::format("{:.2f}", record.time.median_us),
                 fmt::format("{:.1f}", record.gb_per_s()), copy_ratio_text(record), fmt::to_string(record.candidates.verified),
                 fmt::to_string(record.candidates.measured), stored ? "database" : "search"});
    }
    if (!tuned.results.empty()) report.text = table.render();
    for (const TunedRow& row : tuned.results)
      report.text += fmt::format("{}  {}\n", row.record.id.substr(0, 8), to_text(row.record.schedule));
    if (!tuned.results.empty() && tuned.results.front().record.evidence == Evidence::emulated)
      report.text += "A dry run: an emulated device has no times, and no measured or predicted record gives way to these.\n";
    if (!tuned.results.empty() && tuned.results.front().record.evidence == Evidence::predicted)
      report.text += fmt::format("Predicted, not measured: {}.\n", tuned.results.front().record.provenance);
    if (!tuned.interrupted) return report;
    report.exit_code = kExitInterrupted;
    report.error = environment_error("interrupted by a signal", "the same command resumes where this one stopped");
    return report;
  }

  ShapeOptions shape_;
  DeviceOption device_;
  BackendOption backend_;
  DatabaseOption database_;
  std::optional<std::string> rows_;
  std::string search_ = "exhaustive", budget_ = "60s", seed_ = "1", policy_ = "cold";
  bool retune_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_tune_verb() { return std::make_unique<TuneVerb>(); }

}  // namespace headnorm::cli
