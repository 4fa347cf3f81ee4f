#include "generator/backend/cuda_c/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>
#include <vector>

namespace headnorm::cuda_c {
namespace {

constexpr const char* kRemedy =
    "install NVRTC (the CUDA toolkit, or the PyPI package nvidia-cuda-nvrtc) and name its libnvrtc.so by HEADNORM_NVRTC, or use "
    "the built-in backend llvm";

// By name as the loader finds it, then where CUDA's installers put it.
constexpr const char* kPlaces[] = {"libnvrtc.so.13",
                                   "libnvrtc.so.12",
                                   "libnvrtc.so",
                                   "/usr/local/cuda/lib64/libnvrtc.so",
                                   "/usr/local/cuda/lib/libnvrtc.so.13",
                                   "/usr/local/cuda/lib/libnvrtc.so.12",
                                   "/usr/lib/x86_64-linux-gnu/libnvrtc.so"};

constexpr int kSuccess = 0, kInvalidOption = 5;  // of nvrtcResult

// Every operation is written as the one that it is, so that contraction has nothing to do; it is off all the same.
const std::vector<std::string>& common_flags() {
  static const std::vector<std::string> flags = {"-std=c++17", "--fmad=false"};
  return flags;
}

void* open_library(const std::string& library, std::string& reason) {
  std::vector<std::string> candidates = {std::begin(kPlaces), std::end(kPlaces)};
  if (!library.empty()) candidates = {library};
  for (const std::string& candidate : candidates) {
    if (void* handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* text = ::dlerror();
    if (reason.empty()) reason = text != nullptr ? text : candidate;
  }
  return nullptr;
}

}  // namespace

using Program = struct OpaqueProgram*;  // nvrtcProgram

#define HEADNORM_NVRTC_FUNCTIONS(F)                                                                                        \
  F(version, "nvrtcVersion", int*, int*)                                                                                   \
  F(create_program, "nvrtcCreateProgram", Program*, const char*, const char*, int, const char* const*, const char* const*) \
  F(destroy_program, "nvrtcDestroyProgram", Program*)                                                                      \
  F(compile_program, "nvrtcCompileProgram", Program, int, const char* const*)                                              \
  F(get_ptx_size, "nvrtcGetPTXSize", Program, std::size_t*)                                                                \
  F(get_ptx, "nvrtcGetPTX", Program, char*)                                                                                \
  F(get_log_size, "nvrtcGetProgramLogSize", Program, std::size_t*)                                                         \
  F(get_log, "nvrtcGetProgramLog", Program, char*)

struct Nvrtc::Functions {
#define HEADNORM_NVRTC_DECLARE(member, name, ...) int (*member)(__VA_ARGS__) = nullptr;
  HEADNORM_NVRTC_FUNCTIONS(HEADNORM_NVRTC_DECLARE)
#undef HEADNORM_NVRTC_DECLARE

  // What `get` writes into as many bytes as `get_size` says, without the closing zero.
  static std::string text(Program program, int (*get_size)(Program, std::size_t*), int (*get)(Program, char*)) {
    std::size_t size = 0;
    if (get_size(program, &size) != kSuccess || size < 2) return "";
    std::string bytes(size, '\0');
    if (get(program, bytes.data()) != kSuccess) return "";
    bytes.pop_back();
    return bytes;
  }
};

Result<std::shared_ptr<const Nvrtc>> Nvrtc::open(const std::string& library) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Nvrtc>> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(library); found != opened.end()) return found->second;

  std::string reason;
  void* handle = open_library(library, reason);
  if (handle == nullptr) return environment_error("NVRTC cannot be opened: " + reason, kRemedy);
  auto functions = std::make_shared<Functions>();
  const char* missing = nullptr;
#define HEADNORM_NVRTC_LOAD(member, name, ...)                                              \
  functions->member = reinterpret_cast<decltype(functions->member)>(::dlsym(handle, name)); \
  if (functions->member == nullptr && missing == nullptr) missing = name;
  HEADNORM_NVRTC_FUNCTIONS(HEADNORM_NVRTC_LOAD)
#undef HEADNORM_NVRTC_LOAD
  const std::string shown = library.empty() ? "libnvrtc.so" : library;
  if (missing != nullptr) return environment_error(fmt::format("{} has no function {}", shown, missing), kRemedy);
  int major = 0, minor = 0;
  if (functions->version(&major, &minor) != kSuccess) return environment_error(shown + " does not say its version", kRemedy);
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc(std::move(functions)));
  nvrtc->version_ = fmt::format("{}.{}", major, minor);
  opened.emplace(library, nvrtc);
  return std::shared_ptr<const Nvrtc>(nvrtc);
}

std::string Nvrtc::flags() { return fmt::format("{}", fmt::join(common_flags(), " ")); }

Error Nvrtc::refusal(int status, const std::string& log, const Target& target) const {
  if (status == kInvalidOption)
    return environment_error(fmt::format("NVRTC {} does not compile for {}: {}", version_, to_text(target), log),
                             "install a newer CUDA toolkit, or use the built-in backend llvm");
  return internal_error(fmt::format("NVRTC {} does not take the generated CUDA C (status {}):\n{}", version_, status, log));
}

Result<std::string> Nvrtc::compile(const std::string& source, const std::string& name, const Target& target) const {
  Program program = nullptr;
  const int created = functions_->create_program(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
  if (created != kSuccess) return refusal(created, "", target);
  const std::string architecture = "--gpu-architecture=compute_" + processor_name(target).substr(3);
  std::vector<const char*> options = {architecture.c_str()};
  for (const std::string& flag : common_flags()) options.push_back(flag.c_str());
  const int compiled = functions_->compile_program(program, static_cast<int>(options.size()), options.data());
  const std::string log = Functions::text(program, functions_->get_log_size, functions_->get_log);
  std::string ptx;
  if (compiled == kSuccess) ptx = Functions::text(program, functions_->get_ptx_size, functions_->get_ptx);
  functions_->destroy_program(&program);
  if (ptx.empty()) return refusal(compiled, log, target);
  return ptx;
}

}  // namespace headnorm::cuda_c
