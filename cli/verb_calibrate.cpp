// calibrate: fits a cost model to measured times, and says how well it then ranks schedules.
#include <fmt/format.h>

#include <algorithm>

#include "cli/calibration_input.h"
#include "cli/database_option.h"
#include "cli/device_models.h"
#include "cli/files.h"
#include "cli/table.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "core/counted.h"

namespace headnorm::cli {
namespace {

Json fit_json(const Fit& fit) {
  return {{"error", fit.error},
          {"spearman", fit.spearman},
          {"kendall", fit.kendall},
          {"spearman_within", fit.spearman_within},
          {"kendall_within", fit.kendall_within},
          {"groups", fit.groups}};
}

std::vector<std::string> fit_row(const char* name, const Fit& fit) {
  return {name,
          fmt::format("{:.3f}", fit.error),
          fmt::format("{:.3f}", fit.spearman),
          fmt::format("{:.3f}", fit.kendall),
          fit.groups > 0 ? fmt::format("{:.3f}", fit.spearman_within) : "",
          fit.groups > 0 ? fmt::format("{:.3f}", fit.kendall_within) : ""};
}

// Where the figure comes from now, and why.
std::string origin_text(const FigureFit& fit) {
  constexpr double kAlmostNothing = 0.01;  // 10 % of the figure are 0.1 % of every time
  if (fit.is_determined()) return fmt::format("the times, within {:.1f} %", std::max(0.1, 100 * fit.uncertainty));
  if (fit.sensitivity < kAlmostNothing) return "before: no time depends on it";
  return "before: the times and the other figures leave it open";
}

class CalibrateVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    add_text_option(command, "--device", device_, "MODEL", "the model to start from: model:h200, say");
    add_text_option(command, "--csv", csv_, "FILE",
                    "measured times: columns spec, rows, schedule, time_us (the database's records)");
    add_text_option(command, "-o,--output", output_, "FILE", "the fitted model, for --device model:FILE.json");
    database_.declare(command);
  }

  Result<Report> run(const Context& context) override {
    if (!device_) return user_error("--device is missing", "name the model to start from, e.g. --device model:h200");
    HEADNORM_TRY(const GpuModel model, parse_model_device(*device_));
    if (output_) HEADNORM_CHECK(check_output("--output", *output_));
    std::string source;
    HEADNORM_TRY(const std::vector<MeasuredTime> times, read_times(context, model, source));
    HEADNORM_TRY(const Calibration calibration,
                 calibrate(model, times, fmt::format("fitted to {} of {}", counted(times.size(), "measured time"), source)));
    if (output_) HEADNORM_CHECK(write_file(*output_, to_json(calibration.model)));
    return make_report(model, calibration, times.size());
  }

 private:
  Result<std::vector<MeasuredTime>> read_times(const Context& context, const GpuModel& model, std::string& source) const {
    if (csv_) {
      source = "a CSV file";
      HEADNORM_TRY(const std::string text, read_file(*csv_));
      return times_from_csv(text, model);
    }
    source = "a database";
    HEADNORM_TRY(const std::unique_ptr<Database> database, open_database(database_, context, DatabaseNeed::read));
    HEADNORM_TRY(const std::vector<Record> records, database->list());
    return measured_times(records, model);
  }

  Report make_report(const GpuModel& model, const Calibration& calibration, std::size_t times) const {
    Report report;
    report.document = {{"device", model.slug},
                       {"times", times},
                       {"before", fit_json(calibration.before)},
                       {"after", fit_json(calibration.after)},
                       {"figures", Json::object()}};
    if (output_) report.document["output"] = *output_;
    Table fits({"", ">error", ">Spearman", ">Kendall", ">Spearman within", ">Kendall within"});
    fits.add(fit_row("before", calibration.before));
    fits.add(fit_row("after", calibration.after));
    Table figures({"figure", ">before", ">after", "from"});
    for (const FigureFit& fit : calibration.figures) {
      const double before = model[fit.figure], after = calibration.model[fit.figure];
      report.document["figures"][to_text(fit.figure)] = {{"before", before},
                                                         {"after", after},
                                                         {"calibrated", fit.is_determined()},
                                                         {"sensitivity", fit.sensitivity},
                                                         {"uncertainty", fit.uncertainty}};
      figures.add({to_text(fit.figure), fmt::format("{:.4g}", before), fmt::format("{:.4g}", after), origin_text(fit)});
    }
    report.text = fmt::format("{} of {}\n\n{}\n{}", counted(times, "measured time"), model.name, fits.render(), figures.render());
    return report;
  }

  std::optional<std::string> device_, csv_, output_;
  DatabaseOption database_;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate_verb() { return std::make_unique<CalibrateVerb>(); }

}  // namespace headnorm::cli
