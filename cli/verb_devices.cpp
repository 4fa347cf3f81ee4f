// devices: what headnorm can run on here.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/device_option.h"
#include "cli/table.h"
#include "cli/text_option.h"
#include "cli/verb.h"

namespace headnorm::cli {
namespace {

std::string mebibytes(std::int64_t bytes) { return bytes > 0 ? fmt::format("{} MiB", bytes >> 20) : "?"; }

class DevicesVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    add_text_option(command, "--threads", option_.threads, "N", "threads of the host device (one per core)");
  }

  Result<Report> run(const Context&) override {
    HEADNORM_TRY(const std::unique_ptr<Device> host, open_device(option_));
    const DeviceInfo& info = host->info();
    const LibraryState driver = probe_cuda_driver();
    Report report;
    report.document["devices"] = Json::array({device_json(info)});
    report.document["cuda_driver"] = {{"found", driver.found}, {"version", driver.version}};
    Table table({"device", "name", "target", ">threads", ">memory", ">last cache"});
    table.add({info.id, info.name, to_text(info.target), fmt::to_string(info.units), mebibytes(info.memory_bytes),
               mebibytes(info.cache_bytes)});
    report.text = table.render();
    report.text +=
        driver.found
            ? fmt::format("NVIDIA driver for CUDA {}: this version generates PTX for GPUs and does not run it.\n", driver.version)
            : "No NVIDIA driver (libcuda.so.1): PTX for GPUs can still be generated.\n";
    return report;
  }

 private:
  DeviceOption option_;
};

}  // namespace

std::unique_ptr<Verb> make_devices_verb() { return std::make_unique<DevicesVerb>(); }

}  // namespace headnorm::cli
