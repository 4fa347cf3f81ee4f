#include "tuner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "core/counted.h"
#include "tuner/random.h"

namespace headnorm {
namespace {

constexpr std::size_t kBatch = 16;  // candidates that are loaded and timed side by side
constexpr int kScreeningRounds = 3;

constexpr std::int64_t kLargestBlockBytes = 16 * 1024;
constexpr std::int64_t kGapBytes = 64;
constexpr std::int64_t kWideGuardBytes = 16 * 1024;

std::int64_t row_bytes_of(const KernelSpec& spec) { return spec.width * size_bytes(spec.x_dtype); }

// Few rows, all checked, with gaps: two blocks of any schedule and a part of a third.
WorkloadShape small_shape(const KernelSpec& spec) {
  WorkloadShape shape;
  const std::int64_t rows_per_block = (kLargestBlockBytes + row_bytes_of(spec) - 1) / row_bytes_of(spec);
  shape.rows = std::clamp<std::int64_t>(2 * rows_per_block + 3, 7, 259);
  shape.gap_bytes = kGapBytes;
  shape.guard_bytes = kWideGuardBytes;
  for (std::int64_t row = 0; row < shape.rows; ++row) shape.checked_rows.push_back(row);
  return shape;
}

// The launch that is timed: the first and last row and some between are checked.
WorkloadShape full_shape(const KernelSpec& spec, std::int64_t rows, std::uint64_t seed) {
  WorkloadShape shape;
  shape.rows = rows;
  shape.guard_bytes = rows * row_bytes_of(spec) < 1 << 20 ? 256 : 4096;
  std::set<std::int64_t> checked{0, rows - 1};
  Random random(seed);
  for (int i = 0; i < 6; ++i) checked.insert(static_cast<std::int64_t>(random.below(static_cast<std::size_t>(rows))));
  shape.checked_rows.assign(checked.begin(), checked.end());
  return shape;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc));
}

}  // namespace

Search::Search(const TuneRequest& request, const TuneServices& services, std::int64_t rows, double budget_s)
    : request_(request),
      services_(services),
      rows_(rows),
      bytes_(minimum_traffic(request.spec).total_bytes(rows)),
      begin_s_(services.now_s()),
      deadline_s_(begin_s_ + budget_s) {}

Result<std::optional<Record>> Search::run() {
  HEADNORM_CHECK(prepare());
  prepared_s_ = services_.now_s();
  if (stopped()) return std::optional<Record>();
  HEADNORM_CHECK(screen());
  if (stopped()) return std::optional<Record>();
  HEADNORM_CHECK(run_finals());
  if (stopped()) return std::optional<Record>();
  HEADNORM_TRY(const Contestant* best, complete_winner());
  if (stopped()) return std::optional<Record>();
  if (best == nullptr) return nothing_right();
  counts_.legal = asked_ + strategy_->remaining();
  HEADNORM_TRY(Record record, make_record(*best));
  // A search is not lost for want of its trials; the database has said so.
  (void)services_.database.store_trials(make_trials(*best, record));
  warn_if_cut_short();
  return std::optional(std::move(record));
}

void Search::finish() { journal_->remove(); }

Result<void> Search::prepare() {
  report(TunePhase::preparing, 0, 0, deadline_s_ - begin_s_);
  const DeviceInfo& device = services_.device.info();
  HEADNORM_TRY(space_, build_search_space(request_.spec, device.target));
  if (space_.illegal > 0) counts_.rejected["illegal"] = space_.illegal;
  strategy_ = make_strategy(request_.search, space_, request_.seed);
  std::string warning;
  journal_.emplace(Journal::open(
      services_.database.directory(), record_id(request_.spec, rows_, device, request_.policy),
      fmt::format("{};search={};seed={}", services_.backend.identity(), to_text(request_.search), request_.seed), &warning));
  if (!warning.empty() && services_.warn) services_.warn(warning);
  if (stopped()) return {};
  return prepare_operands();
}

Result<void> Search::prepare_operands() {
  const DeviceInfo& device = services_.device.info();
  const Traffic traffic = minimum_traffic(request_.spec);
  const double needed =
      static_cast<double>(rows_) * static_cast<double>(traffic.read_bytes_per_row + traffic.written_bytes_per_row);
  const double available = device.memory_bytes > 0 ? static_cast<double>(device.memory_bytes) : 0x1p50;
  if (needed > 0.8 * available) {
    return environment_error(fmt::format("{} of '{}' take {:.0f} bytes, {} has {:.0f}", counted(rows_, "row"),
                                         to_text(request_.spec), needed, device.name, available),
                             "tune fewer rows: a look-up takes the nearest row count");
  }
  data_.emplace(request_.spec, request_.seed);
  verifier_.emplace(request_.spec, *data_, services_.reference);
  WorkloadShape full = full_shape(request_.spec, rows_, request_.seed);
  full.sets = choose_sets(request_.spec, device, full, request_.policy);
  HEADNORM_TRY(Workload small,
               Workload::make(services_.device, request_.spec, small_shape(request_.spec), *data_, services_.stop_requested));
  small_.emplace(std::move(small));
  HEADNORM_TRY(Workload whole, Workload::make(services_.device, request_.spec, full, *data_, services_.stop_requested));
  full_.emplace(std::move(whole));
  if (stopped()) return {};
  trials_.emplace(services_.device, *full_, *verifier_, request_.policy);
  if (services_.make_copy) {
    HEADNORM_TRY(copy_, services_.make_copy(bytes_));
  }
  return {};
}

bool Search::any_score() const {
  return std::any_of(contestants_.begin(), contestants_.end(),
                     [](const auto& entry) { return !entry.second->rejection && !entry.second->samples().ratios.empty(); });
}

// A search with the smallest budget still ends with a measured plan.
bool Search::has_enough() const { return any_score() || !remembered_.empty(); }

// A batch is no larger than can still be built and timed.
bool Search::may_ask(std::size_t batch_size) const {
  if (batch_size == 0 && !has_enough()) return true;
  const double needed_s = build_s() + static_cast<double>((batch_size + 1) * kScreeningRounds) * trial_s();
  return batch_size < kBatch && services_.now_s() + needed_s < screening_deadline_s();
}

bool Search::may_screen() const { return !stopped() && (services_.now_s() < screening_deadline_s() || !has_enough()); }

Result<void> Search::screen() {
  while (may_screen()) {
    const int asked_before = asked_;
    HEADNORM_TRY(const std::vector<Contestant*> batch, ask_batch());
    if (asked_ == asked_before) return {};
    HEADNORM_CHECK(screen_batch(batch));
  }
  return {};
}

Result<std::vector<Contestant*>> Search::ask_batch() {
  std::vector<Contestant*> batch;
  while (!stopped() && may_ask(batch.size())) {
    const std::optional<Plan> plan = strategy_->ask();
    if (!plan) break;
    ++asked_;
    if (recall(*plan)) continue;
    const double begin_s = services_.now_s();
    HEADNORM_TRY(Contestant * contestant, build(*plan));
    building_s_ += services_.now_s() - begin_s;
    ++builds_;
    if (contestant->rejection) {
      reject(*plan, *contestant->rejection);
    } else {
      ++counts_.verified;
      batch.push_back(contestant);
    }
    report_screening();
  }
  return batch;
}

// Answers a plan that an earlier process finished.
bool Search::recall(const Plan& plan) {
  const auto found = journal_->entries().find(to_text(plan.schedule));
  if (found == journal_->entries().end()) return false;
  const JournalEntry& entry = found->second;
  if (entry.rejection) {
    count_rejection(*entry.rejection);
    recalled_rejections_[to_text(plan.schedule)] = *entry.rejection;
    strategy_->tell(plan, std::nullopt);
  } else {
    ++counts_.verified;
    ++counts_.measured;
    remembered_.emplace_back(entry.score, plan);
    strategy_->tell(plan, entry.score);
  }
  ++told_;
  return true;
}

// A contestant that is loaded and was found right, or has its rejection. Error: of the device's memory.
Result<Contestant*> Search::build(const Plan& plan) {
  auto contestant = std::make_unique<Contestant>();
  contestant->plan = plan;
  HEADNORM_TRY(contestant->rejection, load_and_verify(*contestant));
  if (contestant->rejection) contestant->kernel.reset();
  std::unique_ptr<Contestant>& place = contestants_[to_text(plan.schedule)];
  place = std::move(contestant);
  return place.get();
}

Result<std::optional<Rejection>> Search::load_and_verify(Contestant& contestant) {
  const double begin_s = services_.now_s();
  Result<Artifact> artifact = services_.backend.compile(contestant.plan);
  contestant.compile_s = services_.now_s() - begin_s;
  if (!artifact.ok()) return std::optional(Rejection{"compile", artifact.error().message});
  contestant.artifact = *std::move(artifact);
  auto kernel = services_.device.load(contestant.artifact, contestant.plan);
  if (!kernel.ok()) return std::optional(Rejection{"load", kernel.error().message});
  contestant.kernel = *std::move(kernel);
  for (const Workload* workload : {&*small_, &*full_}) {
    if (!satisfies_alignment(contestant.plan, workload->arguments(0)))
      return std::optional(Rejection{"alignment", "needs more alignment than contiguous rows of this width have"});
  }
  const std::string text = to_text(contestant.plan.schedule);
  journal_->begin(text);
  const double verify_begin_s = services_.now_s();
  HEADNORM_TRY(std::optional<Rejection> rejection, verify(contestant));
  contestant.verify_s = services_.now_s() - verify_begin_s;
  journal_->survive(text);
  return rejection;
}

// The small launch, where everything is looked at, then the full one.
Result<std::optional<Rejection>> Search::verify(const Contestant& contestant) {
  Result<void> launched = services_.device.launch(*contestant.kernel, small_->arguments(0));
  if (launched.ok()) launched = services_.device.synchronize();
  if (!launched.ok()) {
    HEADNORM_CHECK(small_->restore(0));
    return std::optional(Rejection{"launch", launched.error().message});
  }
  HEADNORM_TRY(std::optional<Rejection> rejection, verifier_->check(contestant.plan, *small_, 0));
  if (rejection) {
    // It may have written anywhere around the operands: everything is made anew.
    HEADNORM_CHECK(small_->repair(0));
    return rejection;
  }
  HEADNORM_CHECK(small_->restore(0));
  HEADNORM_TRY(const Trials::Outcome outcome, trials_->run(*contestant.kernel));
  return outcome.rejection;
}

Result<void> Search::screen_batch(const std::vector<Contestant*>& batch) {
  Contest contest(*trials_, copy_.get(), bytes_, request_.seed + static_cast<std::uint64_t>(asked_),
                  [this] { return may_screen(); });
  const double begin_s = services_.now_s();
  bool complete = true;
  for (int round = 0; round < kScreeningRounds && complete; ++round) {
    HEADNORM_TRY(complete, contest.round(batch, &Contestant::screening));
  }
  const double took_s = services_.now_s() - begin_s;
  screening_s_ += took_s;
  for (Contestant* contestant : batch) {
    contestant->measure_s += took_s / static_cast<double>(batch.size());
    screening_trials_ += static_cast<int>(contestant->screening.times_us.size());
    if (contestant->rejection) {
      --counts_.verified;
      reject(contestant->plan, *contestant->rejection);
    } else if (const std::optional<double> score = contestant->score()) {
      ++counts_.measured;
      // Also after a round that was ended early: the score only chooses finalists, which are measured again.
      journal_->finish(to_text(contestant->plan.schedule), {*score, std::nullopt});
      strategy_->tell(contestant->plan, score);
      ++told_;
    }
  }
  report_screening();
  return {};
}

void Search::warn_if_cut_short() const {
  const bool budget_ended = told_ < counts_.legal;
  if (!services_.warn || !budget_ended || 2 * counts_.measured >= counts_.legal) return;
  services_.warn(fmt::format(
      "{}: the budget of {:.3g} s ended with {} of {} candidates measured (the operands were ready after {:.3g} "
      "s, up to {:.3g} s "
      "were kept for the finals); '--budget TIME --retune' with a longer TIME measures more",
      counted(rows_, "row"), deadline_s_ - begin_s_, counts_.measured, counts_.legal, prepared_s_ - begin_s_, finals_reserve_s()));
}

Result<Record> Search::make_record(const Contestant& best) {
  Record record;
  record.spec = request_.spec;
  record.rows = rows_;
  record.device = services_.device.info();
  record.id = record_id(record.spec, rows_, record.device, request_.policy);
  record.schedule = best.plan.schedule;
  record.evidence = record.device.kind == "emulator" ? Evidence::emulated : Evidence::measured;
  record.policy = request_.policy;
  const Samples samples = best.samples_with_closing();
  record.time = summarise(samples.times_us);
  record.bytes = bytes_;
  record.copy_ratio = copy_ ? 1 / quantile(samples.ratios, 0.5) : 0;
  record.candidates = counts_;
  record.search = to_text(request_.search);
  record.seed = request_.seed;
  record.created = utc_now();
  record.tool = request_.tool;
  HEADNORM_TRY(record.kernel, services_.database.store_kernel(best.artifact));
  HEADNORM_CHECK(store_unaligned_twin(best.plan));
  return record;
}

// Misaligned tensors need another kernel than the winner: a process without a compiler has to find that one, too.
Result<void> Search::store_unaligned_twin(const Plan& plan) {
  HEADNORM_TRY(const Plan twin, make_plan(plan.spec, unaligned_schedule(plan), plan.target));
  if (twin.schedule == plan.schedule) return {};
  HEADNORM_TRY(const Artifact artifact, services_.backend.compile(twin));
  HEADNORM_CHECK(services_.database.store_kernel(artifact));
  return {};
}

void Search::count_rejection(const Rejection& rejection) {
  ++counts_.rejected[rejection.kind];
  if (first_rejection_.empty()) first_rejection_ = fmt::format("{}: {}", rejection.kind, rejection.message);
}

void Search::record_rejection(const Plan& plan, const Rejection& rejection) {
  count_rejection(rejection);
  journal_->finish(to_text(plan.schedule), {0, rejection});
}

void Search::reject(const Plan& plan, const Rejection& rejection) {
  record_rejection(plan, rejection);
  strategy_->tell(plan, std::nullopt);
  ++told_;
}

// Of a candidate whose score the strategy knows.
void Search::take_back(const Plan& plan, const Rejection& rejection) {
  --counts_.verified;
  --counts_.measured;
  record_rejection(plan, rejection);
}

Error Search::nothing_right() const {
  std::string kinds;
  for (const auto& [kind, count] : counts_.rejected) kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
  return internal_error(
      fmt::format("no candidate of '{}' was right ({}); the first: {}", to_text(request_.spec), kinds, first_rejection_));
}

void Search::report_screening() const {
  const double now = services_.now_s(), remaining = strategy_->remaining() + asked_ - told_;
  const double to_screen = told_ > 0 ? (now - begin_s_) / told_ * remaining : deadline_s_ - now;
  report(TunePhase::screening, told_, asked_ + strategy_->remaining(),
         std::clamp(to_screen + finals_reserve_s(), 0.0, std::max(0.0, deadline_s_ - now)));
}

void Search::report(TunePhase phase, int done, int total, double eta_s) const {
  if (!services_.progress) return;
  TuneProgress progress;
  progress.phase = phase;
  progress.rows = rows_;
  progress.done = done;
  progress.total = total;
  progress.eta_s = eta_s;
  std::optional<double> best;
  for (const auto& [text, contestant] : contestants_) {
    const std::optional<double> score = contestant->score();
    if (!score || (best && *best <= *score)) continue;
    best = score;
    progress.best_us = quantile(contestant->samples().times_us, 0.5);
    progress.best_copy_ratio = copy_ ? 1 / *score : 0;
    progress.best_schedule = text;
  }
  services_.progress(progress);
}

}  // namespace headnorm
