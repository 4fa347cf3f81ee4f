// explain: the canonical texts of a kernel, the numbers of its plan, its bytes and operations, and its time at best.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/device_option.h"
#include "cli/plan_facts.h"
#include "cli/shape_options.h"
#include "cli/suggest.h"
#include "cli/table.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "core/artifact.h"
#include "tuner/host_copy.h"

namespace headnorm::cli {
namespace {

constexpr std::int64_t kDefaultRows = 4096;

constexpr std::int64_t kCopiedBytes = std::int64_t{256} << 20;
constexpr int kCopies = 5;

// This machine, with the bandwidth of a plain copy measured now.
Result<RooflineDevice> measure_host(const DeviceOption& option) {
  HEADNORM_TRY(const std::unique_ptr<Device> device, open_device(option));
  const DeviceInfo& info = device->info();
  HEADNORM_TRY(const std::unique_ptr<CopyReference> copy, make_host_copy(info, CachePolicy::cold, kCopiedBytes));
  std::vector<double> times_us;
  for (int i = 0; i < kCopies; ++i) {
    HEADNORM_TRY(const double time_us, copy->measure_us(kCopiedBytes));
    times_us.push_back(time_us);
  }
  const double gb_per_s = static_cast<double>(kCopiedBytes) / summarise(times_us).median_us / 1e3;
  return RooflineDevice{.name = "host", .title = fmt::format("{}, {} threads", info.name, info.units), .gb_per_s = gb_per_s};
}

// "host", "model:h200", or all that need no measuring.
Result<std::vector<RooflineDevice>> choose_devices(const std::optional<std::string>& text, const DeviceOption& host) {
  if (!text) return roofline_devices();
  if (*text == "host") {
    HEADNORM_TRY(const RooflineDevice device, measure_host(host));
    return std::vector{device};
  }
  std::vector<std::string> names;
  for (const RooflineDevice& device : roofline_devices()) {
    names.push_back("model:" + device.name);
    if (*text == names.back()) return std::vector{device};
  }
  return user_error(fmt::format("explain has no peak rates of device '{}'", *text),
                    suggestion(*text, names) + "use model:a100, model:h100, model:h200, model:b200 or host");
}

std::string value_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string facts_text(const Json& json) {
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [key, value] : json.items()) facts.emplace_back("  " + key, value_text(value));
  return render_facts(facts);
}

std::string report_text(const Json& document, bool default_schedule) {
  std::string text;
  for (const char* key : {"spec", "schedule", "target", "entry"})
    text += fmt::format("{:<9} {}{}\n", key, document[key].get<std::string>(),
                        default_schedule && key == std::string_view("schedule") ? "  (default)" : "");
  text += "\nplan\n" + facts_text(document["plan"]);
  text += fmt::format("\nbytes, {} rows\n", document["rows"].get<std::int64_t>()) + facts_text(document["bytes"]);
  text += "\noperations\n" + facts_text(document["operations"]);
  Table table({"device", ">GB/s", ">us at best", "bound by"});
  for (const Json& row : document["roofline"])
    table.add({row["title"], fmt::format("{:.0f}", row["gb_per_s"].get<double>()),
               fmt::format("{:.2f}", row["time_us"].get<double>()), row["bound"]});
  return text + "\n" + table.render();
}

class ExplainVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    plan_.declare(command);
    add_text_option(command, "--rows", rows_, "R", "row count of the totals (the preset's, or 4096)");
    add_text_option(command, "--device", device_, "DEVICE", "model:a100, model:h100, model:h200, model:b200, or host (the models)");
    add_text_option(command, "--threads", host_.threads, "N", "threads of the host's copy (one per core)");
    shape_.declare(command);
  }

  Result<Report> run(const Context&) override {
    HEADNORM_TRY(const Shape shape, make_shape(shape_));
    HEADNORM_TRY(const Plan plan, make_plan_of(shape.spec, plan_));
    HEADNORM_TRY(const std::int64_t rows, choose_rows(shape));
    HEADNORM_TRY(const std::vector<RooflineDevice> devices, choose_devices(device_, host_));
    HEADNORM_TRY(const Work work, count_work(plan.spec));
    Report report;
    report.document = {{"spec", to_text(plan.spec)},
                       {"schedule", to_text(plan.schedule)},
                       {"target", to_text(plan.target)},
                       {"entry", entry_name(plan)},
                       {"plan", plan_json(plan)},
                       {"rows", rows},
                       {"bytes", bytes_json(work, rows)},
                       {"operations", operations_json(work, rows)},
                       {"roofline", roofline_json(devices, work, rows)}};
    report.text = report_text(report.document, !plan_.schedule);
    return report;
  }

 private:
  Result<std::int64_t> choose_rows(const Shape& shape) const {
    if (!rows_) return shape.preset != nullptr ? shape.preset->rows : kDefaultRows;
    HEADNORM_TRY(const std::vector<std::int64_t> rows, parse_rows(*rows_));
    if (rows.size() != 1) return user_error(fmt::format("--rows {} names {} row counts", *rows_, rows.size()), "explain takes one");
    return rows.front();
  }

  ShapeOptions shape_;
  PlanOptions plan_;
  DeviceOption host_;
  std::optional<std::string> rows_, device_;
};

}  // namespace

std::unique_ptr<Verb> make_explain_verb() { return std::make_unique<ExplainVerb>(); }

}  // namespace headnorm::cli
