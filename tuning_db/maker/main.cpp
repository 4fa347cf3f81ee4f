// Makes the shipped tables; tools/make_tuning_db builds and runs this.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>

#include "cli/files.h"
#include "core/text.h"
#include "runtime/device.h"
#include "tuning_db/maker/table_maker.h"

namespace headnorm::tables {
namespace {

struct Options {
  std::string output = ".";
  std::vector<std::string> models, targets;
  MeasuredTableOptions measuring;
};

void say(const std::string& text) { fmt::print(stderr, "{}\n", text); }

Result<void> write_table(const Options& options, const std::string& name, const std::string& table) {
  const std::filesystem::path file = std::filesystem::path(options.output) / name;
  HEADNORM_CHECK(cli::write_file(file, table));
  say(fmt::format("{}: {} bytes", file.string(), table.size()));
  return {};
}

Result<void> make_tables(const Options& options) {
  for (const std::string& slug : options.models) {
    const GpuModel* model = find_gpu_model(slug);
    if (model == nullptr) return user_error(fmt::format("there is no model '{}'", slug), "use one of tuner/cost_model/devices");
    HEADNORM_TRY(const std::string table, make_predicted_table(*model, predicted_shapes()));
    HEADNORM_CHECK(write_table(options, table_file_name(model->target, model->slug), table));
  }
  for (const std::string& text : options.targets) {
    HEADNORM_TRY(const Target target, parse_target(text));
    HEADNORM_TRY(const std::string table, make_measured_table(target.isa, measured_shapes(), options.measuring, say));
    HEADNORM_TRY(const std::unique_ptr<Device> host, make_host_device(options.measuring.threads));
    HEADNORM_CHECK(write_table(options, table_file_name(target, host->info().name), table));
  }
  return {};
}

int run(int argc, char** argv) {
  CLI::App app("Makes the tables that headnorm ships.");
  Options options;
  app.add_option("--output", options.output, "directory of the tables");
  app.add_option("--models", options.models, "GPUs whose tables are predicted, e.g. h200,b200")->delimiter(',');
  app.add_option("--targets", options.targets, "instruction sets of this machine whose tables are measured, e.g. x86-64-v3")
      ->delimiter(',');
  app.add_option("--threads", options.measuring.threads, "threads of the launches that are measured");
  app.add_option("--budget", options.measuring.budget_s, "seconds of measuring for each shape and row count");
  app.add_option("--circumstances", options.measuring.circumstances, "of the measuring, in words: kept in the table");
  CLI11_PARSE(app, argc, argv);
  const Result<void> made = make_tables(options);
  if (made.ok()) return 0;
  say(fmt::format("error: {}; {}", made.error().message, made.error().remedy));
  return 1;
}

}  // namespace
}  // namespace headnorm::tables

int main(int argc, char** argv) { return headnorm::tables::run(argc, argv); }
