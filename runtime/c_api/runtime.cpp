// The C API's runtime: look up, prepare, warm, launch.
#include <fmt/format.h>

#include "runtime/c_api/boundary.h"
#include "runtime/c_api/compiler.h"
#include "runtime/c_api/handles.h"

namespace headnorm::c_api {
namespace {

void write_choice(headnorm_choice* choice, headnorm_choice ours, const LaunchReport& report) {
  write_text(ours.served, to_text(report.served));
  write_text(ours.record, report.record.text());
  write_text(ours.schedule, to_text(report.schedule));
  write_struct(choice, ours);
}

// Calls `work`, which returns a Result<LaunchReport>; the caller's struct is checked before anything is done.
template <class Work>
Result<void> with_choice(headnorm_choice* choice, const Work& work) {
  if (choice == nullptr) {
    const Result<LaunchReport> report = work();
    return report.ok() ? Result<void>() : report.error();
  }
  HEADNORM_TRY(const headnorm_choice ours, read_struct(choice, "choice"));
  HEADNORM_TRY(const LaunchReport report, work());
  write_choice(choice, ours, report);
  return {};
}

Result<LaunchArguments> read_arguments(const KernelSpec& spec, const headnorm_arguments* given) {
  if (given == nullptr) return null_argument("arguments");
  HEADNORM_TRY(const headnorm_arguments ours, read_struct(given, "arguments"));
  LaunchArguments arguments;
  arguments.rows = ours.rows;
  arguments.stream = ours.stream;
  const auto set = [&](Operand operand, const void* address, std::int64_t stride) {
    arguments.address(operand) = const_cast<void*>(address);
    arguments.stride(operand) = stride != 0 ? stride : spec.width;
  };
  set(Operand::x, ours.x, ours.x_stride);
  set(Operand::residual, ours.residual, ours.residual_stride);
  set(Operand::gamma, ours.gamma, 0);
  set(Operand::alpha, ours.alpha, 0);
  set(Operand::beta, ours.beta, 0);
  set(Operand::y, ours.y, ours.y_stride);
  set(Operand::residual_out, ours.residual_out, ours.residual_out_stride);
  if (spec.residual != Residual::inplace) return arguments;
  if (ours.y == nullptr) set(Operand::y, ours.x, ours.x_stride);
  if (ours.residual_out == nullptr) set(Operand::residual_out, ours.residual, ours.residual_stride);
  return arguments;
}

Result<void> check_handles(const headnorm_runtime* runtime, const headnorm_spec* spec) {
  if (runtime == nullptr) return null_argument("runtime");
  if (spec == nullptr) return null_argument("spec");
  return {};
}

Result<void> missing_kernels(const WarmReport& report) {
  if (report.missing.empty()) return {};
  const WarmReport::Missing& first = report.missing.front();
  return environment_error(fmt::format("{} of {} kernels of the table are missing; the first, of record {}: {}",
                                       report.missing.size(), report.records, first.record, first.error.message),
                           first.error.remedy);
}

}  // namespace
}  // namespace headnorm::c_api

using namespace headnorm;
using namespace headnorm::c_api;

extern "C" {

headnorm_status headnorm_runtime_create(headnorm_device* device, headnorm_database* database,
                                        const headnorm_runtime_options* options, headnorm_runtime** runtime) {
  return guarded([&]() -> Result<void> {
    if (device == nullptr || runtime == nullptr) return null_argument(device == nullptr ? "device" : "runtime");
    headnorm_runtime_options ours = headnorm_runtime_options_init();
    if (options != nullptr) {
      HEADNORM_TRY(ours, read_struct(options, "options"));
    }
    if (ours.jit != HEADNORM_JIT_ALLOWED && ours.jit != HEADNORM_JIT_FORBIDDEN)
      return user_error(fmt::format("options->jit is {}", ours.jit), "use HEADNORM_JIT_ALLOWED or HEADNORM_JIT_FORBIDDEN");
    auto made = std::make_unique<headnorm_runtime>();
    made->device = device->device;
    if (database != nullptr) made->database = database->database;
    made->compiler = make_compiler();
    made->runtime.emplace(*made->device, made->database.get(), made->compiler.get(),
                          ours.jit == HEADNORM_JIT_FORBIDDEN ? JitMode::forbidden : JitMode::allowed);
    *runtime = made.release();
    return {};
  });
}

void headnorm_runtime_release(headnorm_runtime* runtime) { delete runtime; }

headnorm_status headnorm_runtime_look_up(headnorm_runtime* runtime, const headnorm_spec* spec, int64_t rows,
                                         headnorm_choice* choice) {
  return guarded([&]() -> Result<void> {
    HEADNORM_CHECK(check_handles(runtime, spec));
    return with_choice(choice, [&] { return runtime->runtime->look_up(spec->spec, rows); });
  });
}

headnorm_status headnorm_runtime_prepare(headnorm_runtime* runtime, const headnorm_spec* spec, int64_t rows,
                                         headnorm_choice* choice) {
  return guarded([&]() -> Result<void> {
    HEADNORM_CHECK(check_handles(runtime, spec));
    return with_choice(choice, [&] { return runtime->runtime->prepare(spec->spec, rows); });
  });
}

headnorm_status headnorm_runtime_prepare_for(headnorm_runtime* runtime, const headnorm_spec* spec,
                                             const headnorm_arguments* arguments, headnorm_choice* choice) {
  return guarded([&]() -> Result<void> {
    HEADNORM_CHECK(check_handles(runtime, spec));
    HEADNORM_TRY(const LaunchArguments ours, read_arguments(spec->spec, arguments));
    return with_choice(choice, [&] { return runtime->runtime->prepare(spec->spec, ours); });
  });
}

headnorm_status headnorm_runtime_launch(headnorm_runtime* runtime, const headnorm_spec* spec, const headnorm_arguments* arguments,
                                        headnorm_choice* choice) {
  return guarded([&]() -> Result<void> {
    HEADNORM_CHECK(check_handles(runtime, spec));
    HEADNORM_TRY(const LaunchArguments ours, read_arguments(spec->spec, arguments));
    return with_choice(choice, [&] { return runtime->runtime->run(spec->spec, ours); });
  });
}

headnorm_status headnorm_runtime_warm(headnorm_runtime* runtime, headnorm_database* table, const char* expected_digest,
                                      headnorm_warm_report* report) {
  return guarded([&]() -> Result<void> {
    if (runtime == nullptr || table == nullptr) return null_argument(runtime == nullptr ? "runtime" : "table");
    headnorm_warm_report ours = headnorm_warm_report_init();
    if (report != nullptr) {
      HEADNORM_TRY(ours, read_struct(report, "report"));
    }
    HEADNORM_TRY(const WarmReport warmed,
                 runtime->runtime->warm(*table->database, expected_digest == nullptr ? "" : expected_digest));
    ours.records = warmed.records;
    ours.kernels = warmed.kernels;
    ours.missing = static_cast<std::int32_t>(warmed.missing.size());
    ours.shadowed = static_cast<std::int32_t>(warmed.shadowed.size());
    write_text(ours.digest, warmed.digest);
    if (report != nullptr) write_struct(report, ours);
    return missing_kernels(warmed);
  });
}
}
