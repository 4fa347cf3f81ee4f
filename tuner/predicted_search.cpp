#include "tuner/predicted_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace headnorm {
namespace {

constexpr double kIndifference = 1.03;  // a model is not right to so little: within it, the simplest of the candidates is taken
constexpr std::size_t kAssembled = 8;   // of the best, whose registers the assembler is asked for

// Differences in the digits after these are none that a model could see, and decide nothing.
double rounded(double time_us) {
  return std::isfinite(time_us) ? std::strtod(fmt::format("{:.4g}", time_us).c_str(), nullptr) : time_us;
}

// What a schedule asks for beyond loads into registers: the more of it, the more there is that the model may be wrong about.
int extras(const Plan& plan) {
  const GpuSchedule& s = plan.gpu_schedule();
  return (s.residency != Residency::registers) + (s.cluster > 1) + 2 * (s.staging != Staging::none) + (s.cache != CacheUse::plain);
}

}  // namespace

PredictedSearch::PredictedSearch(const KernelSpec& spec, const GpuModel& model, PredictedSearchOptions options)
    : spec_(spec), model_(model), options_(std::move(options)) {}

Result<Record> PredictedSearch::run(std::int64_t rows) {
  CandidateCounts counts;
  HEADNORM_TRY(std::vector<Scored> scored, ask_all(rows, counts));
  const auto faster = [](const Scored& a, const Scored& b) { return a.time_us < b.time_us; };
  std::stable_sort(scored.begin(), scored.end(), faster);
  if (options_.count_registers) {
    scored.resize(std::min(scored.size(), kAssembled));
    HEADNORM_CHECK(refine_by_registers(scored, rows));
    std::stable_sort(scored.begin(), scored.end(), faster);
  }
  if (scored.empty() || !std::isfinite(scored.front().time_us))
    return user_error(fmt::format("no schedule of '{}' fits a multiprocessor of {}", to_text(spec_), model_.title),
                      "choose another head size or device");
  return make_record(choose(scored), rows, std::move(counts));
}

const PredictedSearch::Scored& PredictedSearch::choose(const std::vector<Scored>& sorted) {
  const auto end = std::find_if(sorted.begin(), sorted.end(),
                                [&](const Scored& scored) { return scored.time_us > kIndifference * sorted.front().time_us; });
  return *std::min_element(sorted.begin(), end, [](const Scored& a, const Scored& b) { return extras(a.plan) < extras(b.plan); });
}

Prediction PredictedSearch::predict_plan(const Plan& plan, std::int64_t rows, std::optional<int> registers) {
  const auto [place, is_new] = counts_.try_emplace(to_text(plan.schedule));
  if (is_new) place->second = count_tile(plan);
  return predict(plan, place->second, rows, model_, registers);
}

Result<std::vector<PredictedSearch::Scored>> PredictedSearch::ask_all(std::int64_t rows, CandidateCounts& counts) {
  HEADNORM_TRY(SearchSpace space, build_search_space(spec_, model_.target));
  if (space.illegal > 0) counts.rejected["illegal"] = space.illegal;
  const std::unique_ptr<Strategy> strategy = make_strategy(options_.search, std::move(space), options_.seed);
  std::vector<Scored> scored;
  while (const std::optional<Plan> plan = strategy->ask()) {
    ++counts.legal;
    const double time_us = rounded(predict_plan(*plan, rows).time_us);
    if (!std::isfinite(time_us)) {
      ++counts.rejected["occupancy"];
      strategy->tell(*plan, std::nullopt);
      continue;
    }
    strategy->tell(*plan, time_us);
    scored.push_back({time_us, *plan});
  }
  return scored;
}

Result<void> PredictedSearch::refine_by_registers(std::vector<Scored>& best, std::int64_t rows) {
  for (Scored& scored : best) {
    const std::string text = to_text(scored.plan.schedule);
    if (!registers_.contains(text)) {
      HEADNORM_TRY(registers_[text], options_.count_registers(scored.plan));
    }
    scored.time_us = rounded(predict_plan(scored.plan, rows, registers_[text]).time_us);
  }
  return {};
}

Record PredictedSearch::make_record(const Scored& best, std::int64_t rows, CandidateCounts counts) const {
  Record record;
  record.spec = spec_;
  record.rows = rows;
  record.device = device_info(model_);
  record.schedule = best.plan.schedule;
  record.evidence = Evidence::predicted;
  record.policy = options_.policy;
  record.id = record_id(spec_, rows, record.device, options_.policy);
  record.time.median_us = record.time.p20_us = record.time.p80_us = best.time_us;
  record.bytes = minimum_traffic(spec_).total_bytes(rows);
  record.candidates = std::move(counts);
  record.search = to_text(options_.search);
  record.seed = options_.seed;
  record.created = options_.created;
  record.tool = options_.tool;
  record.provenance =
      fmt::format("cost model of {}, registers {}; no candidate was run, verified or measured", model_.slug,
                  options_.count_registers ? "of the best as " + options_.assembler + " gives them" : "estimated from the plan");
  return record;
}

}  // namespace headnorm
