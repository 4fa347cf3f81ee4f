#include "runtime/cuda/cubin_compiler.h"

#include <fmt/format.h>

#include <array>

#include "runtime/cuda/nvjitlink.h"

namespace headnorm::cuda {
namespace {

constexpr std::size_t kLogBytes = 8192;

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

class CubinCompiler : public DeviceCompiler {
 public:
  CubinCompiler(std::string tool, int capability) : tool_(std::move(tool)), capability_(capability) {}

  std::string identity(const Target& target) const override { return tool_ + "/" + architecture(target); }

  Result<DeviceCode> compile(const Artifact& portable, const Target& target) override {
    HEADNORM_TRY(LinkedCubin linked, link(portable.bytes, architecture(target)));
    if (linked.bytes.empty())
      return environment_error(tool_ + " made nothing of the kernel " + portable.entry, "the kernel is loaded as PTX");
    const std::string compiler = identity(target);
    return DeviceCode{{ArtifactKind::cubin, portable.entry, std::move(linked.bytes), device_code_key(portable.key, compiler),
                       portable.backend + "/" + compiler},
                      std::move(linked.log)};
  }

 private:
  virtual Result<LinkedCubin> link(const std::string& ptx, const std::string& architecture) = 0;

  // That of the device; code that is for one processor alone names it.
  std::string architecture(const Target& target) const {
    if (target.variant == SmVariant::base) return fmt::format("sm_{}", capability_);
    const std::string text = to_text(target);
    return text.substr(0, text.find('+'));
  }

  std::string tool_;
  int capability_;
};

class NvJitLinkCompiler final : public CubinCompiler {
 public:
  NvJitLinkCompiler(std::shared_ptr<const NvJitLink> library, int capability)
      : CubinCompiler("nvjitlink-" + version_text(library->version()), capability), library_(std::move(library)) {}

 private:
  Result<LinkedCubin> link(const std::string& ptx, const std::string& architecture) override {
    return library_->link(ptx, architecture);
  }

  std::shared_ptr<const NvJitLink> library_;
};

// The driver links for the device of its context.
class DriverCompiler final : public CubinCompiler {
 public:
  DriverCompiler(std::shared_ptr<const PrimaryContext> context, int capability)
      : CubinCompiler("driver-" + version_text(context->driver().version()), capability), context_(std::move(context)) {}

 private:
  Result<LinkedCubin> link(const std::string& ptx, const std::string&) override {
    const Driver& driver = context_->driver();
    const CurrentContext current(*context_);
    HEADNORM_CHECK(current.check());
    std::array<char, kLogBytes> info{}, errors{};
    const auto bytes = reinterpret_cast<void*>(kLogBytes);  // the driver takes numbers in the place of pointers
    std::array options = {JitOption::info_log, JitOption::info_log_bytes, JitOption::error_log, JitOption::error_log_bytes,
                          JitOption::log_verbose};
    std::array<void*, options.size()> values = {info.data(), bytes, errors.data(), bytes, reinterpret_cast<void*>(1)};
    LinkHandle state = nullptr;
    HEADNORM_CHECK(driver.check(driver.link_create(static_cast<unsigned>(options.size()), options.data(), values.data(), &state),
                                "cuLinkCreate"));
    LinkedCubin linked;
    Status status = driver.link_add_data(state, LinkInput::ptx, const_cast<char*>(ptx.c_str()), ptx.size() + 1, "kernel.ptx", 0,
                                         nullptr, nullptr);
    void* cubin = nullptr;  // the state's
    std::size_t cubin_bytes = 0;
    if (status == kSuccess) status = driver.link_complete(state, &cubin, &cubin_bytes);
    if (status == kSuccess) linked.bytes.assign(static_cast<const char*>(cubin), cubin_bytes);
    driver.link_destroy(state);
    Result<void> done = driver.check(status, "cuLink");
    if (!done.ok()) {
      Error error = std::move(done).error();
      error.message += fmt::format("\n{}", errors.data());
      return error;
    }
    linked.log = info.data();
    return linked;
  }

  std::shared_ptr<const PrimaryContext> context_;
};

}  // namespace

std::unique_ptr<DeviceCompiler> make_cubin_compiler(std::shared_ptr<const PrimaryContext> context, int capability,
                                                    std::span<const std::string> libraries) {
  if (libraries.empty()) return nullptr;
  const Driver& driver = context->driver();
  const auto library = NvJitLink::open(libraries);
  if (library.ok() && (*library)->version() <= driver.version() && (*library)->knows(capability))
    return std::make_unique<NvJitLinkCompiler>(*library, capability);
  if (!driver.can_link()) return nullptr;
  return std::make_unique<DriverCompiler>(std::move(context), capability);
}

}  // namespace headnorm::cuda
