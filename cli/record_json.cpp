#include "cli/record_json.h"

#include <fmt/format.h>

namespace headnorm::cli {

Json result_json(const Record& record) {
  Json rejected = Json::object();
  for (const auto& [kind, count] : record.candidates.rejected) rejected[kind] = count;
  return {{"spec", to_text(record.spec)},
          {"rows", record.rows},
          {"device", record.device.id},
          {"device_name", record.device.name},
          {"target", to_text(record.device.target)},
          {"record", record.id},
          {"schedule", to_text(record.schedule)},
          {"evidence", to_text(record.evidence)},
          {"policy", to_text(record.policy)},
          {"time_us",
           {{"median", record.time.median_us},
            {"p20", record.time.p20_us},
            {"p80", record.time.p80_us},
            {"samples", record.time.samples}}},
          {"bytes", record.bytes},
          {"gb_per_s", record.gb_per_s()},
          {"copy_ratio", record.copy_ratio > 0 ? Json(record.copy_ratio) : Json()},
          {"candidates",
           {{"legal", record.candidates.legal},
            {"verified", record.candidates.verified},
            {"measured", record.candidates.measured},
            {"rejected", rejected}}}};
}

Json damage_json(const std::vector<Damage>& damage) {
  Json list = Json::array();
  for (const Damage& entry : damage) list.push_back({{"file", entry.file}, {"reason", entry.reason}});
  return list;
}

std::string copy_ratio_text(const Record& record) { return record.copy_ratio > 0 ? fmt::format("{:.2f}", record.copy_ratio) : ""; }

std::string short_spec(const KernelSpec& spec) {
  return fmt::format("{}/{} {}{}{}", spec.width, spec.head_size, to_text(spec.x_dtype), spec.has_residual() ? " residual" : "",
                     spec.has_gate() ? " seednorm" : "");
}

}  // namespace headnorm::cli
