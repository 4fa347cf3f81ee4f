// doctor: what is installed or missing, and what to do about it.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "cli/database_option.h"
#include "cli/device_option.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/counted.h"
#include "core/text.h"
#include "generator/generator.h"

namespace headnorm::cli {
namespace {

namespace fs = std::filesystem;

struct Finding {
  std::string name;
  enum class State { ok, missing, broken } state;  // missing is no fault: something optional
  std::string detail, remedy;
};

const char* to_text(Finding::State state) {
  constexpr const char* kNames[] = {"ok", "missing", "broken"};
  return kNames[static_cast<int>(state)];
}

Finding find_compiler() { return {"compiler", Finding::State::ok, make_llvm_backend()->identity() + ", built in", ""}; }

Finding find_host() {
  const Result<std::unique_ptr<Device>> host = open_device({});
  if (!host.ok()) return {"host", Finding::State::broken, host.error().message, host.error().remedy};
  const DeviceInfo& info = (*host)->info();
  return {"host", Finding::State::ok,
          fmt::format("{}, {}, {}", info.name, headnorm::to_text(info.target), counted(info.units, "thread")), ""};
}

Finding find_library(const char* name, const LibraryState& library, const char* remedy) {
  if (library.found)
    return {name, Finding::State::ok, library.version.empty() ? "found" : fmt::format("for CUDA {}", library.version), ""};
  return {name, Finding::State::missing, library.reason, remedy};
}

Finding find_nvrtc(const Environment& environment) {
  const Result<std::unique_ptr<CodegenBackend>> backend = make_nvrtc_backend(environment.nvrtc.value_or(""));
  if (backend.ok()) return {"nvrtc", Finding::State::ok, (*backend)->identity(), ""};
  return {"nvrtc", Finding::State::missing, backend.error().message, "only needed for --backend nvrtc: " + backend.error().remedy};
}

Finding find_emulator() {
  const Result<std::vector<DeviceInfo>> devices = list_emulated_devices();
  if (!devices.ok()) return {"emulator", Finding::State::missing, devices.error().message, devices.error().remedy};
  std::string ids;
  for (const DeviceInfo& device : *devices) ids += (ids.empty() ? "" : ", ") + device.id;
  return {"emulator", Finding::State::ok, ids, ""};
}

Finding find_ptxas(const Environment& environment) {
  for (std::string_view directory : text::split(environment.path, ':')) {
    const fs::path candidate = fs::path(directory) / "ptxas";
    if (!directory.empty() && ::access(candidate.c_str(), X_OK) == 0) return {"ptxas", Finding::State::ok, candidate.string(), ""};
  }
  return {"ptxas", Finding::State::missing, "not in PATH", "only needed to check PTX here: install the CUDA toolkit's compiler"};
}

// A database that is not there yet is no fault: the first use makes it.
Finding find_database(const DatabaseOption& option, const Context& context) {
  const Result<fs::path> directory = database_directory(option, context.environment);
  if (!directory.ok()) return {"database", Finding::State::broken, directory.error().message, directory.error().remedy};
  std::error_code ignored;
  if (!fs::exists(*directory, ignored))
    return {"database", Finding::State::missing, directory->string() + " is not there yet", "'headnorm tune' creates it"};
  const Result<std::unique_ptr<Database>> database = Database::open(*directory, {.read_only = true, .warn = {}});
  if (!database.ok()) return {"database", Finding::State::broken, database.error().message, database.error().remedy};
  std::vector<Damage> damage;
  const Result<std::vector<Record>> records = (*database)->list(&damage);
  if (!records.ok()) return {"database", Finding::State::broken, records.error().message, records.error().remedy};
  if (!damage.empty())
    return {"database", Finding::State::broken, fmt::format("{}: {}", directory->string(), counted(damage.size(), "damaged file")),
            "'headnorm db check' names them; delete them"};
  if (::access(directory->c_str(), W_OK) != 0)
    return {"database", Finding::State::broken, directory->string() + " is not writable: nothing can be stored",
            "change its permissions, or name another directory with --db or HEADNORM_DB"};
  return {"database", Finding::State::ok, fmt::format("{}, {}", directory->string(), counted(records->size(), "record")), ""};
}

// Without them, look-ups find only what was tuned here.
Finding find_tables(const Context& context) {
  const std::shared_ptr<ShippedTables> tables = open_shipped_tables(context);
  const std::vector<Record> records = tables != nullptr ? tables->list() : std::vector<Record>();
  if (!records.empty())
    return {"tables", Finding::State::ok, fmt::format("{}, {}", tables->directory().string(), counted(records.size(), "record")),
            ""};
  return {"tables", Finding::State::missing,
          tables != nullptr ? tables->directory().string() + " holds none" : "not beside this program",
          "install headnorm as a whole, or name their directory with HEADNORM_TABLES"};
}

class DoctorVerb final : public Verb {
 public:
  void declare(CLI::App& command) override { database_.declare(command); }

  Result<Report> run(const Context& context) override {
    const std::vector<Finding> findings = {
        find_compiler(),
        find_host(),
        find_library("libcuda", probe_cuda_driver(), "only needed to run on a GPU: install the NVIDIA driver"),
        find_nvrtc(context.environment),
        find_library("nvjitlink", probe_nvjitlink(), "not needed: kernels stay PTX, which the driver compiles when it loads them"),
        find_emulator(),  // after libcuda: once loaded, the loader takes it for a library of that name
        find_ptxas(context.environment),
        find_database(database_, context),
        find_tables(context),
    };
    Report report;
    report.document["checks"] = Json::array();
    std::string broken;
    for (const Finding& finding : findings) {
      report.document["checks"].push_back(
          {{"name", finding.name}, {"state", to_text(finding.state)}, {"detail", finding.detail}, {"remedy", finding.remedy}});
      report.text += fmt::format("{:<9} {:<8} {}\n", finding.name, to_text(finding.state), finding.detail);
      if (!finding.remedy.empty()) report.text += fmt::format("{:18} {}\n", "", finding.remedy);
      if (finding.state == Finding::State::broken) broken += (broken.empty() ? "" : ", ") + finding.name;
    }
    if (broken.empty()) return report;
    report.exit_code = kExitCheckFailed;
    report.error = environment_error("not in order: " + broken, "each line above says what to do");
    return report;
  }

 private:
  DatabaseOption database_;
};

}  // namespace

std::unique_ptr<Verb> make_doctor_verb() { return std::make_unique<DoctorVerb>(); }

}  // namespace headnorm::cli
