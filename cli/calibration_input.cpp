#include "cli/calibration_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/counted.h"
#include "core/text.h"

namespace headnorm::cli {
namespace {

using Fields = std::vector<std::string>;

// The lines of a CSV text; a quoted field may hold commas, ends of lines and doubled quotes.
std::vector<Fields> parse_csv(const std::string& text) {
  std::vector<Fields> lines;
  Fields fields;
  std::string field;
  bool quoted = false;
  const auto end_field = [&] {
    fields.push_back(std::move(field));
    field.clear();
  };
  const auto end_line = [&] {
    end_field();
    if (fields.size() > 1 || !fields[0].empty()) lines.push_back(std::move(fields));
    fields.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      field += text[i++];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      field += c;
    } else if (c == ',') {
      end_field();
    } else if (c == '\n') {
      end_line();
    } else if (c != '\r') {
      field += c;
    }
  }
  end_line();
  return lines;
}

// The place of each column, by name.
struct Columns {
  std::size_t spec = 0, rows = 0, schedule = 0, time = 0;
  std::optional<std::size_t> evidence, device;
};

std::optional<std::size_t> find_column(const Fields& header, std::string_view name) {
  const auto found = std::ranges::find(header, name);
  if (found == header.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header.begin());
}

Result<Columns> read_header(const Fields& header) {
  Columns columns;
  columns.evidence = find_column(header, "evidence");
  columns.device = find_column(header, "device_name");
  const auto median = find_column(header, "median_us");
  for (auto [name, place] : {std::pair("spec", &columns.spec), std::pair("rows", &columns.rows),
                             std::pair("schedule", &columns.schedule), std::pair("time_us", &columns.time)}) {
    std::optional<std::size_t> found = find_column(header, name);
    if (!found && place == &columns.time) found = median;
    if (!found)
      return user_error(fmt::format("the CSV file has no column '{}'", name),
                        "its first line names spec, rows, schedule and time_us");
    *place = *found;
  }
  return columns;
}

Result<MeasuredTime> read_time(const Fields& fields, const Columns& columns, const Target& target) {
  MeasuredTime time;
  HEADNORM_TRY(const KernelSpec spec, parse_spec(fields[columns.spec]));
  HEADNORM_TRY(const Schedule schedule, parse_schedule(fields[columns.schedule], TargetKind::gpu));
  HEADNORM_TRY(time.plan, make_plan(spec, schedule, target));
  HEADNORM_TRY(time.rows, text::parse_integer(fields[columns.rows], "rows"));
  HEADNORM_TRY(time.time_us, text::parse_number(fields[columns.time], "time_us"));
  if (time.rows < 1 || !(time.time_us > 0))
    return user_error(fmt::format("{} in {} us", counted(time.rows, "row"), time.time_us),
                      "give at least one row and a time above 0");
  return time;
}

}  // namespace

std::vector<MeasuredTime> measured_times(const std::vector<Record>& records, const GpuModel& model) {
  std::vector<MeasuredTime> times;
  for (const Record& record : records) {
    if (record.evidence != Evidence::measured || record.device.name != model.name || record.policy != CachePolicy::cold) continue;
    const Result<Plan> plan = make_plan(record.spec, record.schedule, record.device.target);
    if (plan.ok() && record.time.median_us > 0) times.push_back({*plan, record.rows, record.time.median_us});
  }
  return times;
}

Result<std::vector<MeasuredTime>> times_from_csv(const std::string& text, const GpuModel& model) {
  const std::vector<Fields> lines = parse_csv(text);
  if (lines.empty()) return user_error("the CSV file is empty", "its first line names spec, rows, schedule and time_us");
  HEADNORM_TRY(const Columns columns, read_header(lines.front()));
  std::vector<MeasuredTime> times;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const Fields& fields = lines[i];
    if (fields.size() != lines.front().size())
      return user_error(fmt::format("line {} of the CSV file has {}, the first has {}", i + 1, counted(fields.size(), "field"),
                                    lines.front().size()),
                        "put fields with commas into quotes");
    if (columns.evidence && fields[*columns.evidence] != to_text(Evidence::measured)) continue;
    if (columns.device && fields[*columns.device] != model.name) continue;
    Result<MeasuredTime> time = read_time(fields, columns, model.target);
    if (!time.ok()) return user_error(fmt::format("line {} of the CSV file: {}", i + 1, time.error().message), time.error().remedy);
    times.push_back(*std::move(time));
  }
  return times;
}

}  // namespace headnorm::cli
