// Device option: --device and --threads, and the device that they name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/report.h"
#include "emulator/device_model.h"
#include "runtime/device.h"

namespace CLI {
class App;
}

namespace headnorm::cli {

// Whether the verb can do without running anything.
enum class Models : std::uint8_t { refused, taken };

struct DeviceOption {
  std::string device = "host";
  std::optional<std::string> threads;
  Models models = Models::refused;

  void declare(CLI::App& command);
};

// The number of --threads; 0, as many as there are cores, where it is not given. Error (user): not a number of threads.
Result<int> parse_threads(const std::optional<std::string>& text);

// Errors: no such kind of device (user), models among them, which the verb asks for itself; one that is missing here (environment).
Result<std::unique_ptr<Device>> open_device(const DeviceOption& option);

// For a name that is of no kind of device.
Error unknown_device(const std::string& name, Models models);

// "emulator" or "emulator:MODEL". Error (user): no such model.
Result<emulator::Model> parse_emulator(const std::string& device);

// One for each model of the emulator. Error (environment): its library is not there.
Result<std::vector<DeviceInfo>> list_emulated_devices();

// Those that are worth naming to a user, on which kernels run; whether they are here is another matter.
std::vector<std::string> device_names();

Json device_json(const DeviceInfo& info);

// A shared library of a driver or toolkit, as far as it can be had: opened by name, never linked.
struct LibraryState {
  bool found = false;
  std::string version;  // "12.8"; empty if it does not say
  std::string reason;   // why it was not found
};
LibraryState probe_cuda_driver();
LibraryState probe_nvjitlink();

}  // namespace headnorm::cli
