#include "cli/nearby_schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/text.h"
#include "tuner/search_space.h"

namespace headnorm::cli {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kValuesPerField = 2;
constexpr std::size_t kMostPairs = 8;

// Counts whose small values are choices, whether or not the search space has them.
constexpr std::string_view kCounts[] = {"heads", "chunk", "accumulators", "groups", "rows", "unroll"};
constexpr const char* kSmallCounts[] = {"1", "2", "4", "8"};

// Values that a canonical text leaves out.
constexpr std::pair<std::string_view, const char*> kSilent[] = {
    {"cluster", "1"}, {"staging", "none"}, {"stages", "0"}, {"cache", "plain"}, {"launch", "plain"}};

Fields fields_of(const Schedule& schedule) {
  Fields fields;
  const std::string text = to_text(schedule);
  for (const std::string_view field : text::split(text, ',')) {
    const std::size_t equals = field.find('=');
    fields.emplace_back(field.substr(0, equals), field.substr(equals + 1));
  }
  return fields;
}

// How far a value is from the one asked for: numbers by their ratio, names all alike.
double distance(const std::string& asked, const std::string& value) {
  const Result<std::int64_t> a = text::parse_integer(asked, "a"), b = text::parse_integer(value, "b");
  if (!a.ok() || !b.ok()) return 0;
  return std::fabs(std::log2(std::max<double>(static_cast<double>(*a), 0.5)) -
                   std::log2(std::max<double>(static_cast<double>(*b), 0.5)));
}

// The values of every field that schedules worth measuring have, the nearest to those of `asked` first.
std::map<std::string, std::vector<std::string>> values_in_use(const KernelSpec& spec, const Target& target, const Fields& asked) {
  std::map<std::string, std::set<std::string>> found;
  const Result<SearchSpace> space = build_search_space(spec, target);
  if (!space.ok()) return {};
  std::vector<Plan> plans = space->plans;
  const std::vector<Plan> refined = refine(plans.front());
  plans.insert(plans.end(), refined.begin(), refined.end());
  for (const Plan& plan : plans) {
    for (const auto& [field, value] : fields_of(plan.schedule)) found[field].insert(value);
  }
  for (const auto& [field, now] : asked) {
    if (std::ranges::find(kCounts, field) != std::end(kCounts))
      found[field].insert(std::begin(kSmallCounts), std::end(kSmallCounts));
    for (const auto& [silent, value] : kSilent) {
      if (field == silent) found[field].insert(value);
    }
  }
  std::map<std::string, std::vector<std::string>> values;
  for (const auto& [field, now] : asked) {
    std::vector<std::string>& list = values[field];
    list.assign(found[field].begin(), found[field].end());
    std::erase(list, now);
    std::ranges::stable_sort(list, {}, [&](const std::string& value) { return distance(now, value); });
  }
  return values;
}

class Neighbourhood {
 public:
  Neighbourhood(const KernelSpec& spec, const Schedule& schedule, const Target& target)
      : spec_(spec), target_(target), asked_(fields_of(schedule)), values_(values_in_use(spec, target, asked_)) {}

  std::vector<NearbySchedule> one_change() const {
    std::vector<NearbySchedule> found;
    for (const auto& [field, now] : asked_) add(field, asked_, {}, kValuesPerField, found);
    return found;
  }

  std::vector<NearbySchedule> two_changes() const {
    std::vector<NearbySchedule> found;
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      for (const std::string& value : values_of(asked_[i].first)) {
        Fields changed = asked_;
        changed[i].second = value;
        for (std::size_t k = i + 1; k < asked_.size() && found.size() < kMostPairs; ++k)
          add(asked_[k].first, changed, {changed[i]}, 1, found);
      }
    }
    return found;
  }

 private:
  const std::vector<std::string>& values_of(const std::string& field) const {
    static const std::vector<std::string> none;
    const auto found = values_.find(field);
    return found == values_.end() ? none : found->second;
  }

  // Values that come to one kernel are one choice.
  static bool is_known(const std::vector<NearbySchedule>& found, const Schedule& schedule) {
    return std::ranges::find(found, schedule, &NearbySchedule::schedule) != found.end();
  }

  // The first `most` values of `field` that make `fields` legal, as changes after `changes`.
  void add(const std::string& field, Fields fields, const Fields& changes, std::size_t most,
           std::vector<NearbySchedule>& found) const {
    const auto place = std::ranges::find(fields, field, &Fields::value_type::first);
    for (const std::string& value : values_of(field)) {
      if (most == 0) return;
      place->second = value;
      const std::optional<Schedule> schedule = legal(fields);
      if (!schedule || is_known(found, *schedule)) continue;
      found.push_back({changes, *schedule});
      found.back().changes.emplace_back(field, value);
      --most;
    }
  }

  std::optional<Schedule> legal(const Fields& fields) const {
    std::string text;
    for (const auto& [field, value] : fields) text += fmt::format("{}{}={}", text.empty() ? "" : ",", field, value);
    const Result<Schedule> schedule = parse_schedule(text);
    if (!schedule.ok()) return std::nullopt;
    const Result<Plan> plan = make_plan(spec_, *schedule, target_);
    return plan.ok() ? std::optional(plan->schedule) : std::nullopt;
  }

  const KernelSpec& spec_;
  const Target& target_;
  Fields asked_;
  std::map<std::string, std::vector<std::string>> values_;
};

}  // namespace

std::vector<NearbySchedule> nearby_schedules(const KernelSpec& spec, const Schedule& schedule, const Target& target) {
  const Neighbourhood neighbourhood(spec, schedule, target);
  std::vector<NearbySchedule> found = neighbourhood.one_change();
  return found.empty() ? neighbourhood.two_changes() : found;
}

}  // namespace headnorm::cli
