#include "runtime/cuda/handles.h"

#include <fmt/format.h>

#include <array>

namespace headnorm::cuda {
namespace {

constexpr std::size_t kLogBytes = 8192;

std::string trimmed(const std::array<char, kLogBytes>& log) {
  std::string text(log.data());
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

Result<std::shared_ptr<const PrimaryContext>> PrimaryContext::retain(std::shared_ptr<const Driver> driver, DeviceHandle device) {
  ContextHandle handle = nullptr;
  HEADNORM_CHECK(driver->check(driver->primary_ctx_retain(&handle, device), "cuDevicePrimaryCtxRetain"));
  return std::shared_ptr<const PrimaryContext>(new PrimaryContext(std::move(driver), device, handle));
}

Result<Stream> make_stream(std::shared_ptr<const PrimaryContext> context) {
  StreamHandle handle = nullptr;
  HEADNORM_CHECK(context->driver().check(context->driver().stream_create(&handle, kStreamNonBlocking), "cuStreamCreate"));
  return Stream(std::move(context), handle);
}

Result<Event> make_event(std::shared_ptr<const PrimaryContext> context) {
  EventHandle handle = nullptr;
  HEADNORM_CHECK(context->driver().check(context->driver().event_create(&handle, kEventDefault), "cuEventCreate"));
  return Event(std::move(context), handle);
}

Result<Module> load_module(std::shared_ptr<const PrimaryContext> context, const std::string& image) {
  std::array<char, kLogBytes> info{}, errors{};
  std::array options = {JitOption::info_log, JitOption::info_log_bytes, JitOption::error_log, JitOption::error_log_bytes};
  // The driver takes numbers in the place of pointers.
  const auto bytes = reinterpret_cast<void*>(kLogBytes);
  std::array<void*, options.size()> values = {info.data(), bytes, errors.data(), bytes};
  ModuleHandle handle = nullptr;
  const Status status = context->driver().module_load_data(&handle, image.c_str(), static_cast<unsigned>(options.size()),
                                                           options.data(), values.data());
  Result<void> loaded = context->driver().check(status, "cuModuleLoadDataEx");
  if (!loaded.ok()) {
    Error error = std::move(loaded).error();
    for (const std::string& log : {trimmed(errors), trimmed(info)}) {
      if (!log.empty()) error.message += "\n" + log;
    }
    return error;
  }
  return Module(std::move(context), handle);
}

}  // namespace headnorm::cuda
