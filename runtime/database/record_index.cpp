#include "runtime/database/record_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace headnorm {
namespace {

// One text for all specs that differ in width and head size alone. Seed heads follow the shape: per head, one, or otherwise.
std::string class_text(const KernelSpec& spec) {
  KernelSpec options = spec;
  options.width = options.head_size = 0;
  if (spec.has_gate()) options.seed_heads = spec.seed_heads == spec.heads() ? 0 : spec.seed_heads == 1 ? 1 : 2;
  return to_text(options);
}

bool same_device(const DeviceInfo& a, const DeviceInfo& b) {
  return a.kind == b.kind && a.name == b.name && a.target == b.target && a.units == b.units;
}

// |log2(a/b)| orders like this. Exact for integers: two equally near counts compare equal.
double ratio(std::int64_t a, std::int64_t b) {
  const auto [low, high] = std::minmax(std::max<std::int64_t>(a, 1), std::max<std::int64_t>(b, 1));
  return static_cast<double>(high) / static_cast<double>(low);
}

constexpr double kNearRows = 4;

struct Candidate {
  Served served;
  const Record* record;
  KernelSpec wanted;
  std::int64_t rows;

  bool operator<(const Candidate& other) const { return rank() < other.rank(); }
  std::tuple<bool, Served, Evidence, double, double, double, std::int64_t, CachePolicy> rank() const {
    const KernelSpec& spec = record->spec;
    return {record->evidence == Evidence::emulated,  // says nothing of speed
            served,
            record->evidence,
            ratio(spec.width, wanted.width),
            ratio(spec.head_size, wanted.head_size),
            ratio(record->rows, rows),
            record->rows,
            record->policy};
  }
};

std::optional<Served> served_by(const Record& record, const KernelSpec& spec, std::int64_t rows) {
  if (record.spec != spec) return Served::other_shape;
  const bool measured = record.evidence == Evidence::measured;
  if (record.rows == rows) return measured ? Served::exact : Served::predicted;
  if (!measured) return std::nullopt;  // a prediction for other rows says no more than the default
  return ratio(record.rows, rows) <= kNearRows ? Served::nearest_rows : Served::far_rows;
}

}  // namespace

void RecordIndex::clear() {
  by_spec_.clear();
  by_class_.clear();
}

void RecordIndex::add(std::shared_ptr<const Record> record) {
  by_spec_[to_text(record->spec)].push_back(record);
  by_class_[class_text(record->spec)].push_back(std::move(record));
}

Result<Lookup> RecordIndex::look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) const {
  HEADNORM_TRY(const KernelSpec wanted, make_spec(spec));
  if (rows < 0) return user_error(fmt::format("rows {} is negative", rows), "give a row count of at least 0");

  // Another shape matters only if this one has nothing to offer.
  for (const auto& [records, text] : {std::pair(&by_spec_, to_text(wanted)), std::pair(&by_class_, class_text(wanted))}) {
    const auto found = records->find(text);
    if (found == records->end()) continue;
    std::vector<Candidate> candidates;
    for (const std::shared_ptr<const Record>& record : found->second) {
      if (!same_device(record->device, device)) continue;
      if (const auto served = served_by(*record, wanted, rows)) candidates.push_back({*served, record.get(), wanted, rows});
    }
    std::stable_sort(candidates.begin(), candidates.end());
    for (const Candidate& candidate : candidates) {
      const Result<Plan> plan = make_plan(wanted, candidate.record->schedule, device.target);
      if (plan.ok()) return Lookup{candidate.served, plan->schedule, *candidate.record};
    }
  }
  return Lookup{Served::fallback, default_schedule(wanted, device.target), std::nullopt};
}

}  // namespace headnorm
