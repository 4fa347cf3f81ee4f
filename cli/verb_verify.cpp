// verify: kernels of many shapes, options and schedules against double precision, element by element.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <set>

#include "cli/backend_option.h"
#include "cli/device_option.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/reference.h"
#include "cli/shape_options.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "cli/verify_case.h"
#include "cli/verify_grid.h"
#include "core/counted.h"
#include "core/text.h"
#include "generator/generator.h"

namespace headnorm::cli {
namespace {

constexpr std::size_t kShownFailures = 20;
constexpr std::int64_t kMostRows = 65536;  // every element is compared in double precision

// What the cases went through, by kind and value.
class Coverage {
 public:
  void add(const Plan& plan, std::int64_t rows) {
    const KernelSpec& spec = plan.spec;
    specs_.insert(to_text(spec));
    count("rows", fmt::to_string(rows));
    count("dtype", fmt::format("{}/{}/{}", to_text(spec.x_dtype), to_text(spec.weight_dtype), to_text(spec.y_dtype)));
    count("weight", to_text(spec.weight));
    count("residual", to_text(spec.residual));
    count("gate", to_text(spec.gate));
    count("rounding", to_text(spec.rounding));
    count("norm_input", to_text(spec.norm_input));
    count("mode", to_text(spec.mode));
    count("target", to_text(plan.target));
    if (const auto* host = std::get_if<HostSchedule>(&plan.schedule)) {
      count("form", to_text(host->form));
      count("store", to_text(host->store));
    }
    if (const auto* gpu = std::get_if<GpuSchedule>(&plan.schedule)) {
      count("residency", to_text(gpu->residency));
      count("grid", to_text(gpu->grid));
      count("staging", to_text(gpu->staging));
      count("cluster", fmt::to_string(gpu->cluster));
    }
  }

  Json json() const {
    Json json = {{"specs", specs_.size()}};
    for (const auto& [kind, values] : counts_) {
      for (const auto& [value, cases] : values) json[kind][value] = cases;
    }
    return json;
  }

  std::size_t specs() const { return specs_.size(); }

 private:
  void count(const std::string& kind, const std::string& value) { ++counts_[kind][value]; }

  std::set<std::string> specs_;
  std::map<std::string, std::map<std::string, int>> counts_;
};

// How long the specs that are left take, if they take as the others did.
class TimeEstimate {
 public:
  explicit TimeEstimate(const std::vector<KernelSpec>& specs) : begin_(std::chrono::steady_clock::now()) {
    for (const KernelSpec& spec : specs) work_.push_back(work_.back() + kCompiling + static_cast<double>(spec.width));
  }

  // Once `done` of them are done: ", 5 min to go".
  std::string text(std::size_t done) const {
    if (done == 0) return "";
    const double passed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const double left_s = passed_s * (work_.back() / work_[done] - 1);
    return left_s < 90 ? fmt::format(", {:.0f} s to go", left_s) : fmt::format(", {:.0f} min to go", left_s / 60);
  }

 private:
  static constexpr double kCompiling = 1000;  // takes about as long as comparing rows of so many elements
  std::vector<double> work_ = {0};            // of the first n specs
  std::chrono::steady_clock::time_point begin_;
};

Json failure_json(const KernelSpec& spec, const DeviceInfo& device, const Failure& failure) {
  Json json = {{"spec", to_text(spec)}, {"schedule", failure.schedule}, {"rows", failure.rows},
               {"device", device.id},   {"what", failure.what},         {"message", failure.message}};
  const bool element = failure.channel >= 0;
  json["row"] = element ? Json(failure.row) : Json();
  json["head"] = element ? Json(failure.head) : Json();
  json["channel"] = element ? Json(failure.channel) : Json();
  json["value"] = element ? number_json(failure.value) : Json();
  json["expected"] = element ? number_json(failure.expected) : Json();
  json["bound"] = element ? number_json(failure.bound) : Json();
  return json;
}

std::string failure_text(const KernelSpec& spec, const Failure& failure) {
  std::string text = fmt::format("wrong: {}, {}\n  {}\n  {}: {}", to_text(spec), counted(failure.rows, "row"), failure.schedule,
                                 failure.what, failure.message);
  if (failure.channel >= 0)
    text += fmt::format("\n  row {}, head {}, channel {}: value {}, expected {}, bound {}", failure.row, failure.head,
                        failure.channel, failure.value, failure.expected, failure.bound);
  return text + "\n";
}

class VerifyVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    add_text_option(command, "--grid", grid_, "standard|full",
                    "of schedules; without a shape: of shapes and options too (standard)");
    add_text_option(command, "--rows", rows_, "R,R,...", "row counts (1,7)");
    add_text_option(command, "--seed", seed_, "N", "of the random data (1)");
    add_text_option(command, "--schedule", schedule_, "TEXT", "this schedule alone");
    device_.declare(command);
    backend_.declare(command);
    shape_.declare(command);
  }

  Result<Report> run(const Context& context) override {
    HEADNORM_TRY(const Grid grid, parse_grid(grid_));
    HEADNORM_TRY(const std::vector<KernelSpec> specs, choose_specs(grid));
    HEADNORM_TRY(const std::vector<std::int64_t> rows, choose_rows(grid));
    HEADNORM_TRY(const std::int64_t seed, text::parse_integer(seed_, "--seed", "1"));
    HEADNORM_TRY(const std::unique_ptr<Device> device, open_device(device_));
    HEADNORM_TRY(const std::unique_ptr<CodegenBackend> backend,
                 make_backend(backend_, device->info().target.kind, context.environment));
    const InterruptScope interrupt;
    ProgressLine line(context);
    TimeEstimate estimate(specs);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      line.update(fmt::format("spec {}/{}, {}, {} failed{}: {}", i + 1, specs.size(), counted(cases_, "case"), failed_,
                              estimate.text(i), to_text(specs[i])));
      HEADNORM_CHECK(verify_spec(*device, *backend, specs[i], grid, rows, static_cast<std::uint64_t>(seed)));
      if (InterruptScope::requested()) return interrupted_report();
    }
    return make_report();
  }

 private:
  Result<std::vector<KernelSpec>> choose_specs(Grid grid) const {
    if (!shape_.names_shape() && schedule_)
      return user_error(fmt::format("--schedule {} is given without a shape", *schedule_), "give --preset, --spec or --width too");
    if (!shape_.names_shape()) return grid_specs(grid);
    HEADNORM_TRY(const Shape shape, make_shape(shape_));
    return std::vector{shape.spec};
  }

  Result<std::vector<std::int64_t>> choose_rows(Grid grid) const {
    if (!rows_) return grid_rows(grid);
    HEADNORM_TRY(std::vector<std::int64_t> rows, parse_rows(*rows_));
    for (std::int64_t count : rows) {
      if (count > kMostRows)
        return user_error(fmt::format("--rows {} is above {}: every element is compared in double precision", count, kMostRows),
                          "give fewer rows");
    }
    return rows;
  }

  Result<std::vector<Plan>> choose_plans(const KernelSpec& spec, const Target& target, Grid grid) const {
    if (!schedule_) return grid_plans(spec, target, grid);
    HEADNORM_TRY(const Schedule schedule, parse_schedule(*schedule_, target.kind));
    HEADNORM_TRY(const Plan plan, make_plan(spec, schedule, target));
    return std::vector{plan};
  }

  Result<void> verify_spec(Device& device, CodegenBackend& backend, const KernelSpec& spec, Grid grid,
                           const std::vector<std::int64_t>& rows, std::uint64_t seed) {
    HEADNORM_TRY(Reference reference, make_reference(spec));
    HEADNORM_TRY(const std::vector<Plan> plans, choose_plans(spec, device.info().target, grid));
    SpecVerifier verifier(device, backend, spec, std::move(reference), seed);
    for (const Plan& plan : plans) {
      for (std::int64_t count : rows) {
        if (InterruptScope::requested()) return {};
        HEADNORM_TRY(const std::optional<Failure> failure, verifier.run(plan, count));
        ++cases_;
        coverage_.add(plan, count);
        if (!failure) continue;
        ++failed_;
        if (failures_.size() >= kShownFailures) continue;
        failures_.push_back(failure_json(spec, device.info(), *failure));
        failure_texts_ += failure_text(spec, *failure);
      }
    }
    return {};
  }

  Report make_report() const {
    Report report;
    report.document = {{"cases", cases_}, {"failed", failed_}, {"coverage", coverage_.json()}, {"failures", failures_}};
    report.text =
        failure_texts_ + fmt::format("{} of {}, {} failed\n", counted(cases_, "case"), counted(coverage_.specs(), "spec"), failed_);
    if (failed_ == 0) return report;
    report.exit_code = kExitCheckFailed;
    report.error = internal_error(fmt::format("{} of {} outside the error bound", failed_, counted(cases_, "case")));
    return report;
  }

  Report interrupted_report() const {
    Report report = make_report();
    report.exit_code = kExitInterrupted;
    report.error = environment_error("interrupted by a signal", "give the same command again");
    return report;
  }

  ShapeOptions shape_;
  DeviceOption device_;
  BackendOption backend_;
  std::string grid_ = "standard", seed_ = "1";
  std::optional<std::string> rows_, schedule_;
  int cases_ = 0, failed_ = 0;
  Coverage coverage_;
  Json failures_ = Json::array();
  std::string failure_texts_;
};

}  // namespace

std::unique_ptr<Verb> make_verify_verb() { return std::make_unique<VerifyVerb>(); }

}  // namespace headnorm::cli
