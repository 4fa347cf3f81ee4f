// run: the kernel that the database serves, on arrays of .npy and .safetensors files.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "cli/backend_option.h"
#include "cli/database_option.h"
#include "cli/device_option.h"
#include "cli/run_tensors.h"
#include "cli/shape_options.h"
#include "cli/table.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "generator/generator.h"
#include "runtime/runtime.h"

namespace headnorm::cli {
namespace {

constexpr int kTimedLaunches = 5;

class RunVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    add_text_option(command, "--input", files_.input, "FILE",
                    "x [R, D], more dimensions are rows too: .npy, or .safetensors:TENSOR");
    add_text_option(command, "--residual-input", files_.residual, "FILE", "the residual stream, of the shape of x");
    add_text_option(command, "--gamma", files_.gamma, "FILE", "the weight (1 if not given)");
    add_text_option(command, "--alpha", files_.alpha, "FILE", "SeeDNorm's alpha [D] (1 if not given)");
    add_text_option(command, "--beta", files_.beta, "FILE", "SeeDNorm's beta [D] (0 if not given)");
    add_text_option(command, "--output", files_.output, "FILE", "y");
    add_text_option(command, "--residual-output", files_.residual_output, "FILE", "u = x + residual");
    device_.declare(command);
    backend_.declare(command);
    database_.declare(command);
    add_flag(command, "--no-jit", no_jit_, "never compile: a kernel that is not stored is an error");
    shape_.declare(command);
  }

  Result<Report> run(const Context& context) override {
    HEADNORM_CHECK(check_shape());
    HEADNORM_CHECK(check_files(files_));
    HEADNORM_CHECK(check_database_option(database_));
    HEADNORM_TRY(const std::unique_ptr<Device> device, open_device(device_));
    HEADNORM_TRY(const std::unique_ptr<CodegenBackend> backend,
                 make_backend(backend_, device->info().target.kind, context.environment));
    HEADNORM_TRY(const FileTensor input, read_tensor(*files_.input));
    HEADNORM_CHECK(check_rows(*files_.input, input.shape));
    HEADNORM_TRY(const Shape shape, make_shape(shape_for(input)));
    HEADNORM_TRY(RunTensors tensors, load_tensors(*device, shape.spec, files_, input));
    HEADNORM_TRY(const std::unique_ptr<Database> database, open_serving_database(database_, context));
    Runtime runtime(*device, database.get(), backend.get(), no_jit_ ? JitMode::forbidden : JitMode::allowed);
    HEADNORM_TRY(const LaunchReport prepared, runtime.prepare(shape.spec, std::max<std::int64_t>(1, tensors.arguments.rows)));
    HEADNORM_TRY(const double time_us, measure(runtime, *device, shape.spec, tensors.arguments));
    HEADNORM_CHECK(store_outputs(*device, shape.spec, files_, tensors, input.shape));
    return make_report(device->info(), shape.spec, tensors.arguments.rows, prepared, time_us);
  }

 private:
  // What is wrong with the shape whatever the input file holds.
  Result<void> check_shape() const {
    if (!shape_.names_shape()) return {};
    Result<Shape> shape = make_shape(shape_);
    for (const Dtype dtype : kDtypes) {
      if (shape.ok() || shape_.names_dtype()) break;
      ShapeOptions options = shape_;
      options.dtype = to_text(dtype);
      shape = make_shape(options);
    }
    return shape.ok() ? Result<void>() : shape.error();
  }

  // Without a shape, or without a dtype, those of the input file are meant.
  ShapeOptions shape_for(const FileTensor& input) const {
    ShapeOptions options = shape_;
    if (!options.names_shape() && !input.shape.empty()) options.width = fmt::to_string(input.shape.back());
    if (!options.names_dtype()) options.dtype = to_text(input.dtype);
    return options;
  }

  // The median of a few launches; one alone where a launch uses up its inputs. 0 without rows, where nothing is launched.
  static Result<double> measure(Runtime& runtime, Device& device, const KernelSpec& spec, const LaunchArguments& arguments) {
    const int launches = spec.residual == Residual::inplace ? 1 : kTimedLaunches;
    std::vector<double> times_us;
    for (int i = 0; i < launches; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      HEADNORM_CHECK(runtime.run(spec, arguments));
      HEADNORM_CHECK(device.synchronize());
      times_us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    if (arguments.rows == 0) return 0.0;
    std::ranges::nth_element(times_us, times_us.begin() + launches / 2);
    return times_us[static_cast<std::size_t>(launches / 2)];
  }

  Report make_report(const DeviceInfo& device, const KernelSpec& spec, std::int64_t rows, const LaunchReport& launched,
                     double time_us) const {
    const double gb_per_s = rows > 0 ? static_cast<double>(minimum_traffic(spec).total_bytes(rows)) / time_us / 1e3 : 0;
    const char* const whose = device.kind == "emulator" ? " of this processor, not of a GPU" : "";
    Report report;
    report.document = {{"served", to_text(launched.served)},
                       {"from", std::string(launched.from)},
                       {"record", std::string(launched.record.text())},
                       {"schedule", to_text(launched.schedule)},
                       {"spec", to_text(spec)},
                       {"rows", rows},
                       {"time_us", time_us},
                       {"gb_per_s", gb_per_s}};
    report.text = render_facts({{"served", to_text(launched.served)},
                                {"from", std::string(launched.from)},
                                {"record", launched.record.empty() ? "none" : std::string(launched.record.text())},
                                {"schedule", to_text(launched.schedule)},
                                {"spec", to_text(spec)},
                                {"rows", fmt::to_string(rows)},
                                {"time", fmt::format("{:.2f} us, {:.1f} GB/s{}", time_us, gb_per_s, whose)},
                                {"output", *files_.output}});
    return report;
  }

  ShapeOptions shape_;
  DeviceOption device_;
  BackendOption backend_;
  DatabaseOption database_;
  RunFiles files_;
  bool no_jit_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_run_verb() { return std::make_unique<RunVerb>(); }

}  // namespace headnorm::cli
