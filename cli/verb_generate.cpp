// generate: the kernel of a shape as PTX, object code, or a listing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/backend_option.h"
#include "cli/files.h"
#include "cli/launch_json.h"
#include "cli/shape_options.h"
#include "cli/suggest.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "generator/generator.h"

namespace headnorm::cli {
namespace {

constexpr std::array kEmits = {"ptx", "cuda", "object", "llvm", "asm", "program"};

Result<void> check_emit(const std::string& emit, const Target& target) {
  const bool gpu = target.kind == TargetKind::gpu;
  if (std::ranges::find(kEmits, emit) == kEmits.end())
    return user_error(fmt::format("--emit does not know '{}'", emit),
                      suggestion(emit, {kEmits.begin(), kEmits.end()}) + fmt::format("use one of: {}", fmt::join(kEmits, ", ")));
  if ((emit == "ptx" || emit == "cuda") && !gpu)
    return user_error(fmt::format("--emit {} is for GPUs, and {} is a host target", emit, to_text(target)),
                      "give a GPU, e.g. --target sm_80, or use --emit object");
  if (emit == "object" && gpu)
    return user_error(fmt::format("--emit object is for host targets, and {} is a GPU", to_text(target)),
                      "use --emit ptx, or give --target host");
  return {};
}

Result<std::string> render(const Plan& plan, const std::string& emit, CodegenBackend& backend) {
  if (emit == "program") {
    HEADNORM_TRY(const program::Program program, build_program(plan.spec));
    return program::print(program);
  }
  if (emit == "cuda") return render_cuda(plan);
  if (emit == "llvm") return render_listing(plan, Listing::llvm_ir);
  if (emit == "asm") return render_listing(plan, Listing::assembly);
  HEADNORM_TRY(Artifact artifact, backend.compile(plan));
  return std::move(artifact.bytes);
}

class GenerateVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    plan_.declare(command);
    add_text_option(command, "--emit", emit_, fmt::format("{}", fmt::join(kEmits, "|")),
                    "ptx for a GPU and object for a host if not given");
    add_text_option(command, "-o,--output", output_, "FILE", "the file; FILE.launch.json beside it says how to launch it");
    backend_.declare(command);
    shape_.declare(command);
  }

  Result<Report> run(const Context& context) override {
    HEADNORM_TRY(const Shape shape, make_shape(shape_));
    HEADNORM_TRY(const Plan plan, make_plan_of(shape.spec, plan_));
    const std::string emit = emit_.value_or(plan.target.kind == TargetKind::gpu ? "ptx" : "object");
    HEADNORM_CHECK(check_emit(emit, plan.target));
    if (backend_.is_nvrtc() && emit != "ptx")
      return user_error(fmt::format("--backend nvrtc compiles to PTX, and --emit {} asks for something else", emit),
                        "use --emit ptx, or leave --backend out");
    HEADNORM_TRY(const std::unique_ptr<CodegenBackend> backend, make_backend(backend_, plan.target.kind, context.environment));
    HEADNORM_CHECK(check_destination(context, emit));
    HEADNORM_TRY(const std::string bytes, render(plan, emit, *backend));
    const Json launch = launch_json(plan);
    Report report;
    for (const char* key : {"spec", "schedule", "target", "entry"}) report.document[key] = launch[key];
    report.document["emit"] = emit;
    report.document["files"] = Json::array();
    report.document["launch"] = launch;
    if (!output_) {
      report.text = bytes;
      report.document["text"] = bytes;
      return report;
    }
    HEADNORM_TRY(report.document["files"], write_files(bytes, launch));
    for (const Json& file : report.document["files"]) report.text += fmt::format("wrote {}\n", file.get<std::string>());
    return report;
  }

 private:
  Result<void> check_destination(const Context& context, const std::string& emit) const {
    if (output_) return check_output("-o", *output_);
    if (emit != "object") return {};
    if (context.json) return user_error("object code does not go into a JSON document", "give -o FILE");
    if (context.environment.stdout_is_terminal)
      return user_error("object code does not go to a terminal", "give -o FILE, or redirect standard output");
    return {};
  }

  // The kernel, and how to launch it beside it; a device or pipe takes the kernel alone.
  Result<Json> write_files(const std::string& bytes, const Json& launch) const {
    const std::filesystem::path path = *output_;
    HEADNORM_CHECK(write_file(path, bytes));
    Json files = Json::array({path.string()});
    if (is_special_file(path)) return files;
    const std::filesystem::path launch_path = *output_ + ".launch.json";
    HEADNORM_CHECK(write_file(launch_path, launch.dump(2) + "\n"));
    files.push_back(launch_path.string());
    return files;
  }

  ShapeOptions shape_;
  PlanOptions plan_;
  BackendOption backend_;
  std::optional<std::string> emit_, output_;
};

}  // namespace

std::unique_ptr<Verb> make_generate_verb() { return std::make_unique<GenerateVerb>(); }

}  // namespace headnorm::cli
