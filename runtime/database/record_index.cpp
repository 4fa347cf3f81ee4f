#include "runtime/database/record_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace headnorm {
namespace {

// One text for all specs that differ in width and head size alone, and in numbers that are no part of how memory is driven. Seed
// heads follow the shape: per head, one, or otherwise.
std::string class_text(const KernelSpec& spec) {
  KernelSpec options = spec;
  options.width = options.head_size = 0;
  options.eps = KernelSpec().eps;
  if (options.weight_offset != 0) options.weight_offset = 1;
  if (options.residual_scale != 1) options.residual_scale = 2;
  if (spec.has_gate()) {
    options.seed_heads = spec.seed_heads == spec.heads() ? 0 : spec.seed_heads == 1 ? 1 : 2;
    options.seed_scale = 1;
  }
  return to_text(options);
}

// The version of PTX is the driver's: a GPU with another one is the same GPU.
bool same_processor(const Target& a, const Target& b) {
  if (a.kind != b.kind) return false;
  return a.kind == TargetKind::gpu ? a.sm == b.sm && a.variant == b.variant : a == b;
}

bool same_device(const DeviceInfo& a, const DeviceInfo& b) {
  return a.kind == b.kind && a.name == b.name && same_processor(a.target, b.target) && a.units == b.units;
}

// Whether what is known of `other` says something about `device`. Versions of PTX and bf16 conversions are small differences.
bool alike(const DeviceInfo& other, const DeviceInfo& device) {
  if (other.target.kind != device.target.kind) return false;
  if (device.target.kind == TargetKind::gpu) return other.target.sm == device.target.sm;
  return other.target.isa == device.target.isa || (other.target.has_avx512() && device.target.has_avx512());
}

// |log2(a/b)| orders like this. Exact for integers: two equally near counts compare equal.
double ratio(std::int64_t a, std::int64_t b) {
  a = std::max<std::int64_t>(a, 1);
  b = std::max<std::int64_t>(b, 1);
  return static_cast<double>(std::max(a, b)) / static_cast<double>(std::min(a, b));
}

constexpr double kNearRows = 4;

// What is asked for.
struct Question {
  const KernelSpec& spec;
  std::int64_t rows;
  const DeviceInfo& device;
};

struct Candidate {
  Served served;
  const Record* record;
  const Question* question;

  auto rank() const {
    const KernelSpec& spec = record->spec;
    return std::tuple(record->evidence == Evidence::emulated,  // says nothing of speed
                      served, record->device.name != question->device.name, ratio(record->device.units, question->device.units),
                      record->evidence, ratio(spec.width, question->spec.width), ratio(spec.head_size, question->spec.head_size),
                      ratio(record->rows, question->rows), record->rows, record->policy);
  }
  bool operator<(const Candidate& other) const { return rank() < other.rank(); }
};

std::optional<Served> served_by(const Record& record, const Question& question) {
  if (!same_device(record.device, question.device)) {
    const bool says_something = record.evidence != Evidence::emulated && alike(record.device, question.device);
    return says_something ? std::optional(Served::other_device) : std::nullopt;
  }
  if (record.spec != question.spec) return Served::other_shape;
  const bool measured = record.evidence == Evidence::measured;
  if (record.rows == question.rows) return measured ? Served::exact : Served::predicted;
  if (measured) return ratio(record.rows, question.rows) <= kNearRows ? Served::nearest_rows : Served::far_rows;
  return record.evidence == Evidence::predicted ? std::optional(Served::predicted_rows) : std::nullopt;
}

using Records = std::vector<std::shared_ptr<const Record>>;

const Records* find(const std::map<std::string, Records>& records, const std::string& text) {
  const auto found = records.find(text);
  return found == records.end() ? nullptr : &found->second;
}

enum class Whose : std::uint8_t { own, others };

std::optional<Lookup> best_of(const Records& records, const Question& question, Whose whose) {
  std::vector<Candidate> candidates;
  for (const std::shared_ptr<const Record>& record : records) {
    const std::optional<Served> served = served_by(*record, question);
    if (!served || (*served == Served::other_device) != (whose == Whose::others)) continue;
    candidates.push_back({*served, record.get(), &question});
  }
  std::stable_sort(candidates.begin(), candidates.end());
  for (const Candidate& candidate : candidates) {
    const Result<Plan> plan = make_plan(question.spec, candidate.record->schedule, question.device.target);
    if (plan.ok()) return Lookup{candidate.served, plan->schedule, *candidate.record, Origin::user};
  }
  return std::nullopt;
}

}  // namespace

void RecordIndex::clear() {
  by_spec_.clear();
  by_class_.clear();
}

void RecordIndex::add(std::shared_ptr<const Record> record) { add(Records{std::move(record)}); }

void RecordIndex::add(const Records& records) {
  if (records.empty()) return;
  for (auto [index, text] :
       {std::pair(&by_spec_, to_text(records.front()->spec)), std::pair(&by_class_, class_text(records.front()->spec))}) {
    Records& known = (*index)[text];
    known.insert(known.end(), records.begin(), records.end());
  }
}

Result<Lookup> RecordIndex::look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) const {
  HEADNORM_TRY(const KernelSpec wanted, make_spec(spec));
  if (rows < 0) return user_error(fmt::format("rows {} is negative", rows), "give a row count of at least 0");

  // Another shape matters only if this one has nothing to offer, and another device only if this one has not.
  const Question question{wanted, rows, device};
  const Records* const same_spec = find(by_spec_, to_text(wanted));
  const Records* const same_class = find(by_class_, class_text(wanted));
  for (const Whose whose : {Whose::own, Whose::others}) {
    for (const Records* records : {same_spec, same_class}) {
      if (records == nullptr) continue;
      if (std::optional<Lookup> best = best_of(*records, question, whose)) return *std::move(best);
    }
  }
  return Lookup{Served::fallback, default_schedule(wanted, device.target), std::nullopt, Origin::user};
}

}  // namespace headnorm
