#include "generator/export/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/digest.h"
#include "core/text.h"

namespace headnorm::exports {
namespace {

constexpr std::size_t kMostNameBytes = 100;

auto order_without_policy(const Record& record) {
  return std::make_tuple(to_text(record.spec), record.device.kind, record.device.name, to_text(record.device.target),
                         record.device.units, record.rows);
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs pairs_of(const std::string& schedule) {
  Pairs pairs;
  for (const std::string_view field : text::split(schedule, ',')) {
    const std::size_t equals = field.find('=');
    pairs.emplace_back(field.substr(0, equals), equals == std::string_view::npos ? "" : field.substr(equals + 1));
  }
  return pairs;
}

bool is_number(const std::string& text) { return text::parse_integer(text, "value").ok(); }

bool is_default_text(const std::string& value) { return value.empty() || value == "0" || value == "none"; }

// The same shape and dtype, with nothing out of the ordinary.
KernelSpec plain_spec(const KernelSpec& spec) {
  KernelSpec plain;
  plain.width = spec.width;
  plain.head_size = spec.head_size;
  plain.x_dtype = plain.residual_dtype = plain.weight_dtype = plain.y_dtype = spec.x_dtype;
  plain.residual = spec.residual;
  plain.gate = spec.gate;
  plain.seed_heads = spec.has_gate() ? spec.heads() : 0;
  return plain;
}

}  // namespace

std::vector<Row> canonical_rows(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const auto key = [](const Row& row) { return std::make_tuple(order_without_policy(row.record), row.record.policy); };
    return key(a) < key(b);
  });
  const auto same = [](const Row& a, const Row& b) { return order_without_policy(a.record) == order_without_policy(b.record); };
  rows.erase(std::unique(rows.begin(), rows.end(), same), rows.end());
  return rows;
}

std::vector<std::vector<Row>> grouped(const std::vector<Row>& rows, std::string (*key)(const Record&)) {
  std::vector<std::vector<Row>> groups;
  std::map<std::string, std::size_t> places;
  for (const Row& row : rows) {
    const auto [place, is_new] = places.emplace(key(row.record), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(row);
  }
  return groups;
}

Fields::Fields(const std::vector<std::string>& schedules) {
  for (const std::string& schedule : schedules) {
    std::size_t place = 0;  // behind the field before, so that a new field stands where its own text has it
    for (const auto& [name, value] : pairs_of(schedule)) {
      auto found = std::find_if(list_.begin(), list_.end(), [&, &key = name](const Field& field) { return field.name == key; });
      if (found == list_.end()) found = list_.insert(list_.begin() + static_cast<std::ptrdiff_t>(place), Field{name, true});
      found->is_number = found->is_number && is_number(value);
      place = static_cast<std::size_t>(found - list_.begin()) + 1;
    }
  }
}

std::vector<Value> Fields::values(const std::string& schedule) const {
  std::map<std::string, std::string> given;
  for (const auto& [name, value] : pairs_of(schedule)) given[name] = value;
  std::vector<Value> values;
  for (const Field& field : list_) {
    const auto found = given.find(field.name);
    if (!field.is_number)
      values.emplace_back(found == given.end() ? std::string("none") : found->second);
    else
      values.emplace_back(found == given.end() ? 0 : *text::parse_integer(found->second, field.name));
  }
  return values;
}

Fields fields_of(const std::vector<Row>& rows) {
  std::vector<std::string> schedules;
  for (const Row& row : rows) schedules.push_back(to_text(row.record.schedule));
  return Fields(schedules);
}

Fields fields_of(const Row& row) {
  std::vector<std::string> schedules = {to_text(row.record.schedule)};
  for (const Trial& trial : trials_of(row)) schedules.push_back(trial.schedule);
  return Fields(schedules);
}

Json value_json(const Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

std::string value_text(const Value& value) {
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

Result<Schedule> schedule_of(const std::vector<std::string>& names, const std::vector<std::string>& values, TargetKind kind) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < values.size(); ++i) {
    if (!is_default_text(values[i])) text += fmt::format("{}{}={}", text.empty() ? "" : ",", names[i], values[i]);
  }
  return parse_schedule(text, kind);
}

std::string operation_name(const KernelSpec& spec) {
  const Result<KernelSpec> plain = make_spec(plain_spec(spec));
  const bool is_plain = plain.ok() && *plain == spec;
  return fmt::format("mh_rmsnorm{}{}{}",
                     spec.residual == Residual::none  ? ""
                     : spec.residual == Residual::add ? "_residual"
                                                      : "_residual_inplace",
                     spec.has_gate() ? "_seednorm" : "", is_plain ? "" : "_" + sha256_hex(to_text(spec)).substr(0, 8));
}

std::string kernel_name(const KernelSpec& spec) {
  return fmt::format("{}_{}_H{}_D{}", operation_name(spec), to_text(spec.x_dtype), spec.heads(), spec.head_size);
}

std::vector<std::int64_t> problem_size(const Record& record) { return {record.rows, record.spec.heads(), record.spec.head_size}; }

std::string problem_text(const Record& record) {
  return fmt::format("{}x{}x{}", record.rows, record.spec.heads(), record.spec.head_size);
}

std::string sanitised(const std::string& text, const std::string& kept) {
  std::string name;
  for (const char c : text) {
    const bool keep =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || kept.find(c) != std::string::npos;
    name += keep ? c : '_';
  }
  if (name.size() > kMostNameBytes) name = name.substr(0, kMostNameBytes - 9) + "_" + sha256_hex(text).substr(0, 8);
  return name.empty() ? "_" : name;
}

std::string device_file_name(const DeviceInfo& device) {
  return fmt::format("{}_{}{}", sanitised(device.name, "-."), device.kind == "emulator" ? "emulated_" : "", device.units);
}

const char* framework_dtype(Dtype dtype) { return dtype == Dtype::f32 ? "float32" : dtype == Dtype::f16 ? "float16" : "bfloat16"; }

std::string spaced_time(const std::string& iso) {
  if (iso.size() != 20 || iso[10] != 'T' || iso[19] != 'Z') return iso;
  return iso.substr(0, 10) + " " + iso.substr(11, 8);
}

std::vector<Trial> trials_of(const Row& row) {
  if (row.trials) return row.trials->trials;
  Trial winner;
  winner.schedule = to_text(row.record.schedule);
  winner.time_us = row.record.time.median_us;
  return {winner};
}

bool is_complete(const Row& row) {
  return row.trials && static_cast<int>(row.trials->trials.size()) >= row.record.candidates.legal;
}

File sidecar(const std::string& name, const std::string& format, const std::string& tool, const std::vector<Row>& rows) {
  Json meta = {{"tool", tool}, {"format", format}, {"file", name}, {"rows", Json::array()}};
  for (const Row& row : rows) {
    Record record = row.record;
    record.kernel = {};
    meta["rows"].push_back({{"spec", to_text(record.spec)},
                            {"schedule", to_text(record.schedule)},
                            {"complete", is_complete(row)},
                            {"candidates", trials_of(row).size()},
                            {"record", Json::parse(to_json(record))}});
  }
  return {name + ".meta.json", dump(meta, 2) + "\n"};
}

std::string dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

}  // namespace headnorm::exports
