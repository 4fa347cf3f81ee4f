#include "cli/model_tuning.h"

#include <fmt/format.h>

#include <ctime>

#include "core/counted.h"
#include "generator/generator.h"
#include "tuner/predicted_search.h"

namespace headnorm::cli {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc));
}

Result<std::optional<Record>> find_measured(const ModelTuning& tuning, std::int64_t rows) {
  const TuneRequest& request = tuning.request;
  const std::string id = record_id(request.spec, rows, device_info(tuning.model), request.policy);
  HEADNORM_TRY(std::optional<Record> record, tuning.database.find(id));
  if (record && record->evidence != Evidence::measured) record.reset();
  return record;
}

// The assembler as far as it serves the target: an older one does not know the newest.
std::optional<Assembler> usable_assembler(const ModelTuning& tuning, const KernelSpec& spec, CodegenBackend& backend) {
  if (!tuning.assembler) return std::nullopt;
  const Target& target = tuning.model.target;
  const Result<Plan> plan = make_plan(spec, default_schedule(spec, target), target);
  if (!plan.ok()) return std::nullopt;
  const Result<Artifact> artifact = backend.compile(*plan);
  if (!artifact.ok()) return std::nullopt;
  const Result<int> registers = count_registers(*tuning.assembler, artifact->bytes, target);
  if (registers.ok()) return tuning.assembler;
  if (tuning.warn) tuning.warn(fmt::format("registers are estimated: {}", registers.error().message));
  return std::nullopt;
}

PredictedSearchOptions search_options(const ModelTuning& tuning, const KernelSpec& spec, CodegenBackend& backend) {
  PredictedSearchOptions options;
  options.search = tuning.request.search;
  options.seed = tuning.request.seed;
  options.policy = tuning.request.policy;
  options.tool = tuning.request.tool;
  options.created = utc_now();
  const std::optional<Assembler> assembler = usable_assembler(tuning, spec, backend);
  if (!assembler) return options;
  options.assembler = assembler->version;
  options.count_registers = [assembler = *assembler, &backend](const Plan& plan) -> Result<int> {
    HEADNORM_TRY(const Artifact artifact, backend.compile(plan));
    return count_registers(assembler, artifact.bytes, plan.target);
  };
  return options;
}

}  // namespace

Result<TuneReport> tune_by_model(const ModelTuning& tuning) {
  if (tuning.request.policy != CachePolicy::cold)
    return user_error("a cost model reckons with cold caches only; --policy is warm", "leave --policy out, or tune on a device");
  HEADNORM_TRY(const KernelSpec spec, make_spec(tuning.request.spec));
  const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
  PredictedSearch search(spec, tuning.model, search_options(tuning, spec, *backend));
  TuneReport report;
  for (const std::int64_t rows : tuning.request.rows) {
    if (tuning.stop_requested && tuning.stop_requested()) break;
    HEADNORM_TRY(std::optional<Record> measured, find_measured(tuning, rows));
    if (measured && tuning.request.retune == Retune::missing) {
      report.results.push_back({*std::move(measured), TunedRow::Origin::stored});
      continue;
    }
    HEADNORM_TRY(Record record, search.run(rows));
    if (measured && tuning.warn)
      tuning.warn(
          fmt::format("{}: the measured record {} stays, and this prediction is not stored", counted(rows, "row"), measured->id));
    HEADNORM_CHECK(tuning.database.publish(record));
    report.results.push_back({std::move(record), TunedRow::Origin::tuned});
  }
  report.interrupted = report.results.size() < tuning.request.rows.size();
  return report;
}

}  // namespace headnorm::cli
