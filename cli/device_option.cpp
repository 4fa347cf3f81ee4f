#include "cli/device_option.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iterator>

#include "cli/device_models.h"
#include "cli/suggest.h"
#include "cli/text_option.h"
#include "core/text.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/nvjitlink.h"
#include "runtime/host/host_device.h"

namespace headnorm::cli {
namespace {

constexpr std::int64_t kMostOrdinal = 1023;
constexpr const char* kDefaultModel = "h200";

struct LibraryCloser {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

Library open_library(std::initializer_list<const char*> names, std::string& reason) {
  for (const char* name : names) {
    if (void* library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return Library(library);
    const char* text = ::dlerror();
    if (reason.empty()) reason = text != nullptr ? text : "unknown reason";
  }
  return nullptr;
}

template <class Function>
Function* symbol(const Library& library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library.get(), name));
}

Error not_this_device(const std::string& device) {
  return user_error(fmt::format("device {} is a cost model, on which nothing runs", device),
                    "use --device host, cuda:0 or emulator here; tune and explain take models");
}

// "cuda" is the first device, "cuda:1" the second.
Result<std::unique_ptr<Device>> open_cuda_device(const std::string& name) {
  const std::size_t colon = name.find(':');
  std::int64_t ordinal = 0;
  if (colon != std::string::npos) {
    HEADNORM_TRY(ordinal, text::parse_integer(name.substr(colon + 1), "the number of the device in --device " + name, "0"));
  }
  if (ordinal < 0 || ordinal > kMostOrdinal)
    return user_error(fmt::format("--device {}: {} is no number of a device", name, ordinal),
                      "use cuda:0 for the first; 'headnorm devices' lists what there is");
  return make_cuda_device({}, static_cast<int>(ordinal));
}

// Where an installation or a build has the stand-in driver, seen from this program.
constexpr const char* kEmulatorPlaces[] = {HEADNORM_EMULATOR_PLACE, "../emulator/driver/libcuda.so.1"};

Result<std::string> find_emulator() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return environment_error("this program's own place is unknown: " + error.message(), "mount /proc");
  std::string tried;
  for (const char* place : kEmulatorPlaces) {
    const std::filesystem::path candidate = (program.parent_path() / place).lexically_normal();
    if (std::filesystem::exists(candidate, error)) return candidate.string();
    tried += (tried.empty() ? "" : ", ") + candidate.string();
  }
  return environment_error(fmt::format("the emulator's library is not there: {}", tried), "install headnorm as a whole");
}

// The stand-in learns which devices it has from its environment, as programs that are not ours tell it: one of each model.
Result<CudaDriverOptions> emulator_driver() {
  HEADNORM_TRY(std::string library, find_emulator());
  CudaDriverOptions options{.library = std::move(library), .kind = "emulator", .names = {}, .linkers = {}};
  for (emulator::Model model : emulator::all_models()) options.names.emplace_back(emulator::device_model(model).slug);
  ::setenv("HEADNORM_EMULATOR_DEVICES", fmt::format("{}", fmt::join(options.names, ",")).c_str(), 1);
  return options;
}

Result<std::unique_ptr<Device>> open_emulator(const std::string& name) {
  HEADNORM_TRY(const emulator::Model model, parse_emulator(name));
  HEADNORM_TRY(const CudaDriverOptions options, emulator_driver());
  const auto models = emulator::all_models();
  return make_cuda_device(options, static_cast<int>(std::ranges::find(models, model) - models.begin()));
}

}  // namespace

Result<int> parse_threads(const std::optional<std::string>& text) {
  if (!text) return 0;
  HEADNORM_TRY(const std::int64_t threads, text::parse_integer(*text, "--threads", "2"));
  if (threads < 1 || threads > host::kMaxThreads)
    return user_error(fmt::format("--threads {} is outside 1 to {}", threads, host::kMaxThreads),
                      "leave it out for one thread per core that this process may use");
  return static_cast<int>(threads);
}

void DeviceOption::declare(CLI::App& command) {
  const bool takes_models = models == Models::taken;
  add_text_option(command, "--device", device, takes_models ? "DEVICE|MODEL" : "DEVICE",
                  takes_models ? "host, cuda:N, emulator:MODEL or model:NAME" : "host, cuda:N, emulator or emulator:MODEL");
  add_text_option(command, "--threads", threads, "N", "threads of the host device (one per core)");
}

Result<std::unique_ptr<Device>> open_device(const DeviceOption& option) {
  HEADNORM_TRY(const int threads, parse_threads(option.threads));
  const std::string& name = option.device;
  const std::string kind = name.substr(0, name.find(':'));
  if (name == "host") return make_host_device(threads);
  if (kind == "cuda") return open_cuda_device(name);
  if (kind == "emulator") return open_emulator(name);
  if (kind == "model") return not_this_device(name);
  return unknown_device(name, option.models);
}

Error unknown_device(const std::string& name, Models models) {
  std::vector<std::string> known = device_names();
  if (models == Models::taken) std::ranges::copy(model_names(), std::back_inserter(known));
  return user_error(fmt::format("'{}' is not a device", name),
                    suggestion(name, known) + "use --device host; 'headnorm devices' lists what there is");
}

Result<emulator::Model> parse_emulator(const std::string& device) {
  const std::size_t colon = device.find(':');
  const std::string slug = colon == std::string::npos ? kDefaultModel : device.substr(colon + 1);
  if (const std::optional<emulator::Model> model = emulator::parse_model(slug)) return *model;
  std::string choices;
  for (emulator::Model known : emulator::all_models()) choices += fmt::format(" emulator:{}", emulator::device_model(known).slug);
  return user_error(fmt::format("--device {}: '{}' is no model of the emulator", device, slug), "use one of" + choices);
}

Result<std::vector<DeviceInfo>> list_emulated_devices() {
  HEADNORM_TRY(const CudaDriverOptions options, emulator_driver());
  return list_cuda_devices(options);
}

std::vector<std::string> device_names() {
  std::vector<std::string> names = {"host", "cuda:0", "emulator"};
  for (emulator::Model model : emulator::all_models())
    names.push_back(fmt::format("emulator:{}", emulator::device_model(model).slug));
  return names;
}

Json device_json(const DeviceInfo& info) {
  return {{"name", info.name},     {"kind", info.kind},
          {"id", info.id},         {"target", to_text(info.target)},
          {"units", info.units},   {"memory_bytes", info.memory_bytes},
          {"driver", info.driver}, {"cache_bytes", info.cache_bytes}};
}

LibraryState probe_cuda_driver() {
  LibraryState state;
  const Library library = open_library({"libcuda.so.1"}, state.reason);
  state.found = library != nullptr;
  if (!state.found) return state;
  auto* get_version = symbol<int(int*)>(library, "cuDriverGetVersion");
  int version = 0;
  if (get_version != nullptr && get_version(&version) == 0)
    state.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  return state;
}

LibraryState probe_nvjitlink() {
  const auto library = cuda::NvJitLink::open(CudaDriverOptions().linkers);
  if (!library.ok()) return {false, "", library.error().message};
  const int version = (*library)->version();
  return {true, fmt::format("{}.{}", version / 1000, version % 1000 / 10), ""};
}

}  // namespace headnorm::cli
