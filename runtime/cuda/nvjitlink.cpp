#include "runtime/cuda/nvjitlink.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace headnorm::cuda {
namespace {

constexpr int kPtxInput = 2;  // NVJITLINK_INPUT_PTX

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

template <class Handle, class Status>
std::string read_log(Handle handle, Status (*size_of)(Handle, std::size_t*), Status (*read)(Handle, char*)) {
  std::size_t bytes = 0;
  if (size_of(handle, &bytes) != 0 || bytes == 0) return "";
  std::vector<char> text(bytes + 1, '\0');
  if (read(handle, text.data()) != 0) return "";
  std::string log(text.data());
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.pop_back();
  return log;
}

}  // namespace

Result<std::shared_ptr<const NvJitLink>> NvJitLink::open(std::span<const std::string> libraries) {
  void* library = nullptr;
  for (const std::string& name : libraries) {
    if (library == nullptr) library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  }
  if (library == nullptr)
    return environment_error("nvJitLink is not here", "not needed: kernels stay PTX, which the driver compiles when it loads them");
  auto link = std::make_shared<NvJitLink>();
  unsigned (*version)(unsigned*, unsigned*) = nullptr;
  const bool complete =
      find(library, "nvJitLinkCreate", link->create_) && find(library, "nvJitLinkDestroy", link->destroy_) &&
      find(library, "nvJitLinkAddData", link->add_data_) && find(library, "nvJitLinkComplete", link->complete_) &&
      find(library, "nvJitLinkGetLinkedCubinSize", link->cubin_size_) && find(library, "nvJitLinkGetLinkedCubin", link->cubin_) &&
      find(library, "nvJitLinkGetErrorLogSize", link->error_log_size_) && find(library, "nvJitLinkGetErrorLog", link->error_log_) &&
      find(library, "nvJitLinkGetInfoLogSize", link->info_log_size_) && find(library, "nvJitLinkGetInfoLog", link->info_log_) &&
      find(library, "nvJitLinkVersion", version);
  unsigned major = 0, minor = 0;
  if (!complete || version(&major, &minor) != 0)
    return environment_error("nvJitLink lacks a function that headnorm calls", "install that of CUDA 12.3 or later");
  link->version_ = static_cast<int>(major * 1000 + minor * 10);
  return std::shared_ptr<const NvJitLink>(link);
}

bool NvJitLink::knows(int version, int capability) {
  // The first version of CUDA for each.
  constexpr struct {
    int capability, version;
  } kFirst[] = {{80, 11000},  {86, 11010},  {87, 11040},  {89, 11080},  {90, 11080},
                {100, 12080}, {103, 12090}, {110, 13000}, {120, 12080}, {121, 12090}};
  return std::ranges::any_of(kFirst, [&](const auto& first) { return first.capability == capability && first.version <= version; });
}

// One link; ends with it.
struct NvJitLink::Session {
  const NvJitLink& library;
  Handle handle = nullptr;

  explicit Session(const NvJitLink& used) : library(used) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (handle != nullptr) library.destroy_(&handle);
  }

  Result<void> check(Status status, const char* what) const {
    if (status == 0) return {};
    const std::string log = handle == nullptr ? "" : read_log(handle, library.error_log_size_, library.error_log_);
    return environment_error(fmt::format("{}: error {}{}{}", what, status, log.empty() ? "" : "\n", log),
                             "not needed: kernels stay PTX, which the driver compiles when it loads them");
  }
};

Result<LinkedCubin> NvJitLink::link(const std::string& ptx, const std::string& architecture) const {
  const std::string arch = "-arch=" + architecture;
  std::array options = {arch.c_str(), "-Xptxas=-v"};
  Session session(*this);
  const Status created = create_(&session.handle, options.size(), options.data());
  if (created != 0) session.handle = nullptr;  // it is set all the same, and ending it or asking it for a log is fatal
  HEADNORM_CHECK(session.check(created, "nvJitLinkCreate"));
  // PTX is text that ends with a zero, which counts.
  HEADNORM_CHECK(
      session.check(add_data_(session.handle, kPtxInput, ptx.c_str(), ptx.size() + 1, "kernel.ptx"), "nvJitLinkAddData"));
  HEADNORM_CHECK(session.check(complete_(session.handle), "nvJitLinkComplete"));
  std::size_t bytes = 0;
  HEADNORM_CHECK(session.check(cubin_size_(session.handle, &bytes), "nvJitLinkGetLinkedCubinSize"));
  LinkedCubin linked;
  linked.bytes.resize(bytes);
  HEADNORM_CHECK(session.check(cubin_(session.handle, linked.bytes.data()), "nvJitLinkGetLinkedCubin"));
  linked.log = read_log(session.handle, info_log_size_, info_log_);
  return linked;
}

}  // namespace headnorm::cuda
