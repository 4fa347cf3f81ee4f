// explain: the canonical texts of a kernel, the numbers of its plan, its bytes and operations, and its time at best.
#include <fmt/format.h>

#include "cli/assembler.h"
#include "cli/counters.h"
#include "cli/database_option.h"
#include "cli/device_models.h"
#include "cli/device_option.h"
#include "cli/nearby_schedules.h"
#include "cli/plan_facts.h"
#include "cli/prediction_report.h"
#include "cli/shape_options.h"
#include "cli/table.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "core/artifact.h"
#include "core/counted.h"
#include "generator/generator.h"
#include "tuner/device_copy.h"
#include "tuner/host_copy.h"

namespace headnorm::cli {
namespace {

constexpr std::int64_t kDefaultRows = 4096;

constexpr std::int64_t kCopiedBytes = std::int64_t{256} << 20;
constexpr int kCopies = 5;

// This machine or its GPU, with the bandwidth of a plain copy measured now.
Result<RooflineDevice> measure_copy(const DeviceOption& option) {
  HEADNORM_TRY(const std::unique_ptr<Device> device, open_device(option));
  const DeviceInfo& info = device->info();
  const bool is_host = info.target.kind == TargetKind::host;
  HEADNORM_TRY(const std::unique_ptr<CopyReference> copy, is_host ? make_host_copy(info, CachePolicy::cold, kCopiedBytes)
                                                                  : make_device_copy(*device, CachePolicy::cold, kCopiedBytes));
  std::vector<double> times_us;
  for (int i = 0; i < kCopies; ++i) {
    HEADNORM_TRY(const double time_us, copy->measure_us(kCopiedBytes));
    times_us.push_back(time_us);
  }
  const double gb_per_s = static_cast<double>(kCopiedBytes) / summarise(times_us).median_us / 1e3;
  return RooflineDevice{.name = info.id,
                        .title = fmt::format("{}, {}", info.name, counted(info.units, is_host ? "thread" : "multiprocessor")),
                        .gb_per_s = gb_per_s,
                        .source = fmt::format("a plain copy on {}, measured now", is_host ? "this machine" : "this GPU")};
}

std::string kind_of(const std::string& device) { return device.substr(0, device.find(':')); }
bool is_emulator(const std::string& device) { return kind_of(device) == "emulator"; }

// "host", "cuda:0", "model:h200", or all that need no measuring.
Result<std::vector<RooflineDevice>> choose_devices(const std::optional<std::string>& text,
                                                   const std::optional<std::string>& threads) {
  if (!text || is_emulator(*text)) return device_models();
  if (*text == "host" || kind_of(*text) == "cuda") {
    HEADNORM_TRY(const RooflineDevice device, measure_copy({.device = *text, .threads = threads}));
    return std::vector{device};
  }
  if (!is_model_device(*text)) return unknown_device(*text, Models::taken);
  HEADNORM_TRY(const GpuModel model, parse_model_device(*text));
  return std::vector{roofline_of(model)};
}

// Who asks for a schedule: the device named, or any that runs the target.
Result<DeviceInfo> asking_device(const std::optional<std::string>& text, const Target& target, const DeviceOption& host) {
  DeviceInfo info;
  if (text && is_model_device(*text)) {
    HEADNORM_TRY(const GpuModel model, parse_model_device(*text));
    info = device_info(model);
  } else if (text && is_emulator(*text)) {
    HEADNORM_TRY(const emulator::Model model, parse_emulator(*text));
    info.kind = "emulator";
    info.name = emulator::device_model(model).name;
    info.units = emulator::device_model(model).multiprocessors;
  } else if (target == make_host_target(detect_host_isa())) {
    HEADNORM_TRY(const std::unique_ptr<Device> device, open_device(host));
    return device->info();
  }
  info.target = target;
  return info;
}

std::string value_text(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.3g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string facts_text(const Json& json) {
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [key, value] : json.items()) facts.emplace_back("  " + key, value_text(value));
  return render_facts(facts);
}

// The first lines; what is the default is said.
std::string identity_text(const Json& document, const Error* illegal) {
  std::string text;
  for (const char* key : {"spec", "schedule", "from", "target", "entry"}) {
    if (!document.contains(key)) continue;
    text += fmt::format("{:<9} {}", key, document[key].get<std::string>());
    if (key == std::string_view("schedule") && illegal != nullptr) text += "  (illegal)";
    if (key == std::string_view("schedule") && document.value("served", "") == "default") text += "  (default)";
    text += '\n';
  }
  return text;
}

std::string roofline_text(const Json& roofline) {
  Table table({"device", ">GB/s", ">us at least", "bound by"});
  for (const Json& row : roofline)
    table.add({row["title"], fmt::format("{:.0f}", row["gb_per_s"].get<double>()),
               fmt::format("{:.2f}", row["time_us"].get<double>()), row["bound"]});
  return "\nroofline (a bound, not a measurement)\n" + table.render();
}

std::string report_text(const Json& document, const Error* illegal) {
  std::string text = identity_text(document, illegal);
  if (illegal == nullptr) text += "\nplan\n" + facts_text(document["plan"]);
  text += fmt::format("\nbytes, {}\n", counted(document["rows"].get<std::int64_t>(), "row")) + facts_text(document["bytes"]);
  text += "\noperations\n" + facts_text(document["operations"]);
  text += roofline_text(document["roofline"]);
  if (document.contains("prediction")) text += prediction_text(document["prediction"]);
  if (document.contains("counters")) text += counters_text(document["counters"]);
  return text;
}

Json nearby_json(const std::vector<NearbySchedule>& nearby) {
  Json list = Json::array();
  for (const NearbySchedule& near : nearby) {
    Json changes = Json::object();
    for (const auto& [field, value] : near.changes) changes[field] = value;
    list.push_back({{"changes", changes}, {"schedule", to_text(near.schedule)}});
  }
  return list;
}

// "legal with store=plain; or with lanes=16": for the remedy. Nothing where no schedule is near.
std::string nearby_text(const std::vector<NearbySchedule>& nearby) {
  std::string text;
  for (const NearbySchedule& near : nearby) {
    text += text.empty() ? "legal with " : "; or with ";
    for (std::size_t i = 0; i < near.changes.size(); ++i)
      text += fmt::format("{}{}={}", i == 0 ? "" : ",", near.changes[i].first, near.changes[i].second);
  }
  return text;
}

class ExplainVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    plan_.declare(command);
    add_text_option(command, "--rows", rows_, "R", "row count of the totals (the preset's, or 4096)");
    add_text_option(command, "--device", device_, "MODEL|host",
                    "a model ('model:h200'), host or cuda:N (the models); emulator:MODEL: to count on");
    add_text_option(command, "--threads", threads_, "N", "threads of the host's copy (one per core)");
    add_flag(command, "--counters", counters_, "run a launch on an emulated GPU, and count");
    database_.declare(command);
    shape_.declare(command);
  }

  Result<Report> run(const Context& context) override {
    HEADNORM_TRY(const Shape shape, make_shape(shape_));
    std::optional<emulator::Model> model;
    if (device_ && is_emulator(*device_)) {
      HEADNORM_TRY(model, parse_emulator(*device_));
    }
    PlanOptions options = plan_;
    std::optional<GpuModel> cost_model;
    if (device_ && is_model_device(*device_)) {
      HEADNORM_TRY(cost_model, parse_model_device(*device_));
    }
    const bool names_target = options.target != PlanOptions().target;
    if (model && !names_target) options.target = fmt::format("sm_{}", emulator::device_model(*model).sm);
    if (cost_model && !names_target) options.target = to_text(cost_model->target);
    HEADNORM_TRY(AskedPlan asked, read_plan_options(shape.spec, options));
    HEADNORM_TRY(const std::int64_t rows, choose_rows(shape));
    HEADNORM_CHECK(parse_threads(threads_));
    HEADNORM_TRY(const std::vector<RooflineDevice> devices, choose_devices(device_, threads_));
    std::optional<Lookup> lookup;
    if (!plan_.schedule) {
      HEADNORM_TRY(lookup, look_up(context, shape.spec, rows, asked.target));
      asked.schedule = lookup->schedule;
    }
    HEADNORM_TRY(const Work work, count_work(shape.spec));
    const Result<Plan> plan = make_plan(shape.spec, asked.schedule, asked.target);
    Report report;
    report.document = plan.ok() ? legal_json(*plan) : illegal_json(shape.spec, asked);
    if (lookup) add_lookup(*lookup, report.document);
    report.document["rows"] = rows;
    report.document["bytes"] = bytes_json(work, rows);
    report.document["operations"] = operations_json(work, rows);
    report.document["roofline"] = roofline_json(devices, work, rows);
    if (plan.ok() && cost_model && plan->target.kind == TargetKind::gpu)
      report.document["prediction"] = predicted_json(context, *plan, rows, *cost_model);
    if (plan.ok() && (counters_ || model)) {
      const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
      HEADNORM_TRY(report.document["counters"], count_launch(*backend, *plan, rows, model ? *model : smallest_model(plan->target)));
    }
    if (!plan.ok()) {
      const std::vector<NearbySchedule> nearby = nearby_schedules(shape.spec, asked.schedule, asked.target);
      report.document["nearby"] = nearby_json(nearby);
      report.error = plan.error();
      if (!nearby.empty()) report.error->remedy += "; " + nearby_text(nearby);
      report.exit_code = exit_code_of(*report.error);
    }
    report.text = report_text(report.document, report.error ? &*report.error : nullptr);
    return report;
  }

 private:
  // The schedule that a launch would be served.
  Result<Lookup> look_up(const Context& context, const KernelSpec& spec, std::int64_t rows, const Target& target) const {
    HEADNORM_TRY(const std::unique_ptr<Database> database, open_consulted_database(database_, context));
    HEADNORM_TRY(const DeviceInfo device, asking_device(device_, target, {.threads = threads_}));
    if (database != nullptr) return database->look_up(spec, rows, device);
    Lookup nothing;
    nothing.schedule = default_schedule(spec, target);
    return nothing;
  }

  static void add_lookup(const Lookup& lookup, Json& document) {
    document["served"] = to_text(lookup.served);
    document["from"] = describe(lookup);
    document["record"] = lookup.record ? lookup.record->id : "";
  }

  // With the registers that ptxas gives, where it is installed and takes the kernel.
  static Json predicted_json(const Context& context, const Plan& plan, std::int64_t rows, const GpuModel& model) {
    std::optional<int> registers;
    if (const std::optional<Assembler> assembler = find_assembler(context.environment)) {
      const Result<Artifact> artifact = make_llvm_backend()->compile(plan);
      const Result<int> counted = artifact.ok() ? count_registers(*assembler, artifact->bytes, plan.target) : artifact.error();
      if (counted.ok()) registers = *counted;
    }
    return prediction_json(predict(plan, count_tile(plan), rows, model, registers), model);
  }

  static Json legal_json(const Plan& plan) {
    return {{"spec", to_text(plan.spec)},     {"schedule", to_text(plan.schedule)},
            {"target", to_text(plan.target)}, {"legal", true},
            {"entry", entry_name(plan)},      {"plan", plan_json(plan)}};
  }

  // The schedule as it was asked for: there is no canonical form of it.
  static Json illegal_json(const KernelSpec& spec, const AskedPlan& asked) {
    return {{"spec", to_text(spec)}, {"schedule", to_text(asked.schedule)}, {"target", to_text(asked.target)}, {"legal", false}};
  }

  Result<std::int64_t> choose_rows(const Shape& shape) const {
    if (!rows_) return shape.preset != nullptr ? shape.preset->rows : kDefaultRows;
    HEADNORM_TRY(const std::vector<std::int64_t> rows, parse_rows(*rows_));
    if (rows.size() != 1)
      return user_error(fmt::format("--rows {} names {}", *rows_, counted(rows.size(), "row count")), "explain takes one");
    return rows.front();
  }

  ShapeOptions shape_;
  PlanOptions plan_;
  DatabaseOption database_;
  std::optional<std::string> rows_, device_, threads_;
  bool counters_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_explain_verb() { return std::make_unique<ExplainVerb>(); }

}  // namespace headnorm::cli
