// devices: what headnorm can run on here.
#include <fmt/format.h>

#include <vector>

#include "cli/device_option.h"
#include "cli/table.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "runtime/cuda/cuda_device.h"
#include "tuner/cost_model/gpu_model.h"

namespace headnorm::cli {
namespace {

std::string mebibytes(std::int64_t bytes) { return bytes > 0 ? fmt::format("{} MiB", bytes >> 20) : "?"; }

// A model is no device: it is listed as what it is.
DeviceInfo model_info(const GpuModel& model) {
  DeviceInfo info = device_info(model);
  info.kind = "model";
  info.name += " (cost model)";
  return info;
}

class DevicesVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    add_text_option(command, "--threads", option_.threads, "N", "threads of the host device (one per core)");
  }

  Result<Report> run(const Context&) override {
    HEADNORM_TRY(const std::unique_ptr<Device> host, open_device(option_));
    std::vector<DeviceInfo> devices = {host->info()};
    const Result<std::vector<DeviceInfo>> gpus = list_cuda_devices({});
    if (gpus.ok()) devices.insert(devices.end(), gpus->begin(), gpus->end());
    const LibraryState driver = probe_cuda_driver();
    // After the real driver: once the stand-in is loaded, the loader takes it for what is asked for by the name libcuda.so.1.
    const Result<std::vector<DeviceInfo>> emulated = list_emulated_devices();
    if (emulated.ok()) devices.insert(devices.end(), emulated->begin(), emulated->end());
    for (const GpuModel& model : gpu_models()) devices.push_back(model_info(model));
    Report report;
    report.document["devices"] = Json::array();
    report.document["cuda_driver"] = {{"found", driver.found}, {"version", driver.version}};
    Table table({"device", "name", "target", ">units", ">memory", ">last cache"});
    for (const DeviceInfo& info : devices) {
      report.document["devices"].push_back(device_json(info));
      table.add({info.id, info.name, to_text(info.target), fmt::to_string(info.units), mebibytes(info.memory_bytes),
                 mebibytes(info.cache_bytes)});
    }
    report.text = table.render();
    if (!driver.found)
      report.text += "No NVIDIA driver (libcuda.so.1): PTX for GPUs can still be generated.\n";
    else if (!gpus.ok())
      report.text += fmt::format("The NVIDIA driver is of no use here: {}\n", gpus.error().message);
    return report;
  }

 private:
  DeviceOption option_;
};

}  // namespace

std::unique_ptr<Verb> make_devices_verb() { return std::make_unique<DevicesVerb>(); }

}  // namespace headnorm::cli
