#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace headnorm::cuda {
namespace {

constexpr const char* kInstallDriver = "install an NVIDIA driver for CUDA 11.8 or later, or use --device host";

// In the order of drivers; between two, the older one's PTX holds.
struct PtxOfDriver {
  int driver, ptx;
};
constexpr PtxOfDriver kPtxOfDrivers[] = {{11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76},
                                         {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84},
                                         {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}};

// Versions that are worth asking for where the driver takes them: from the first on there are cache policies, from the next on bulk
// copies, then accesses of 32 bytes.
struct PtxOfProcessors {
  int sm, ptx;
};
constexpr PtxOfProcessors kUsefulPtx[] = {{80, 74}, {90, 80}, {100, 88}};

bool stays_with_context(Status status) {
  return status >= kIllegalAddress && status <= kLaunchFailed && status != kLaunchOutOfResources;
}

std::string remedy_for(Status status) {
  switch (status) {
    case kOutOfMemory:
      return "free memory of the device (nvidia-smi lists who holds it), or use fewer rows";
    case kNoDevice:
      return "check that a GPU is there and visible (nvidia-smi, CUDA_VISIBLE_DEVICES), or use --device host";
    case kUnsupportedPtxVersion:
      return "generate for an older PTX version (--target sm_NN+ptxVV), or install a newer driver";
    case kCaptureUnsupported:
      return "prepare() the kernel before the capture begins";
    default:
      if (stays_with_context(status))
        return "a kernel of this process has faulted and its GPU context is lost: start the process anew";
      return "look the error up in the CUDA driver's documentation; `headnorm doctor` shows driver and device";
  }
}

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::open(const std::string& library) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Driver>> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(library); found != opened.end()) return found->second;

  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return environment_error(fmt::format("the CUDA driver cannot be opened: {}", reason != nullptr ? reason : library),
                             kInstallDriver);
  }
  auto driver = std::make_shared<Driver>();
  const char* missing = nullptr;
#define HEADNORM_CUDA_LOAD(member, name, ...)                                         \
  driver->member = reinterpret_cast<decltype(driver->member)>(::dlsym(handle, name)); \
  if (driver->member == nullptr && missing == nullptr) missing = name;
  HEADNORM_CUDA_FUNCTIONS(HEADNORM_CUDA_LOAD)
#undef HEADNORM_CUDA_LOAD
#define HEADNORM_CUDA_LOAD(member, name, ...) driver->member = reinterpret_cast<decltype(driver->member)>(::dlsym(handle, name));
  HEADNORM_CUDA_LINK_FUNCTIONS(HEADNORM_CUDA_LOAD)
#undef HEADNORM_CUDA_LOAD
  if (missing != nullptr) return environment_error(fmt::format("{} has no function {}", library, missing), kInstallDriver);
  driver->last_fault_ = reinterpret_cast<const char* (*)()>(::dlsym(handle, "headnorm_emulator_last_fault"));
  HEADNORM_CHECK(driver->check(driver->init(0), "cuInit"));
  HEADNORM_CHECK(driver->check(driver->driver_get_version(&driver->version_), "cuDriverGetVersion"));
  opened.emplace(library, driver);
  return std::shared_ptr<const Driver>(driver);
}

Error Driver::error_of(Status status, std::string_view what) const {
  const char *name = nullptr, *text = nullptr;
  if (get_error_name(status, &name) != kSuccess || name == nullptr) name = "unknown error";
  if (get_error_string(status, &text) != kSuccess || text == nullptr) text = "no description";
  std::string message = fmt::format("{}: {} ({}): {}", what, name, status, text);
  if (last_fault_ != nullptr && stays_with_context(status)) message += fmt::format("\n{}", last_fault_());
  return environment_error(std::move(message), remedy_for(status));
}

int newest_ptx(int driver_version) {
  int ptx = 0;
  for (const PtxOfDriver& pair : kPtxOfDrivers) {
    if (driver_version >= pair.driver) ptx = pair.ptx;
  }
  return ptx;
}

std::optional<Target> best_target(int capability, int driver_version) {
  const int newest = newest_ptx(driver_version);
  std::optional<Target> best;
  for (Target target : gpu_targets()) {
    if (target.variant != SmVariant::base || target.sm > capability || target.ptx > newest) continue;
    for (const PtxOfProcessors& useful : kUsefulPtx) {
      if (target.sm >= useful.sm && newest >= useful.ptx) target.ptx = std::max(target.ptx, useful.ptx);
    }
    best = target;
  }
  return best;
}

bool runs_on(const Target& target, int capability) {
  return target.variant == SmVariant::base ? target.sm <= capability : target.sm == capability;
}

}  // namespace headnorm::cuda
