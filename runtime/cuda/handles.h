// Owners of the driver's handles: each releases its handle in the device's context, and none can fail in doing so.
#pragma once

#include <memory>
#include <utility>

#include "runtime/cuda/driver.h"

namespace headnorm::cuda {

// The primary context of a device, retained while this lives.
class PrimaryContext {
 public:
  static Result<std::shared_ptr<const PrimaryContext>> retain(std::shared_ptr<const Driver> driver, DeviceHandle device);
  ~PrimaryContext() { driver_->primary_ctx_release(device_); }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  const Driver& driver() const { return *driver_; }
  ContextHandle handle() const { return handle_; }

 private:
  PrimaryContext(std::shared_ptr<const Driver> driver, DeviceHandle device, ContextHandle handle)
      : driver_(std::move(driver)), device_(device), handle_(handle) {}

  std::shared_ptr<const Driver> driver_;
  DeviceHandle device_;
  ContextHandle handle_;
};

// The context is current in this thread while this lives; then what was current before is again.
class CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& context)
      : driver_(context.driver()), status_(driver_.ctx_push_current(context.handle())) {}
  ~CurrentContext() {
    ContextHandle popped = nullptr;
    if (status_ == kSuccess) driver_.ctx_pop_current(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  Result<void> check() const { return driver_.check(status_, "cuCtxPushCurrent"); }

 private:
  const Driver& driver_;
  Status status_;
};

// A handle of the context and the driver's function that releases it.
template <class Handle, Status (*Driver::*kRelease)(Handle)>
class Owned {
 public:
  Owned(std::shared_ptr<const PrimaryContext> context, Handle handle) : context_(std::move(context)), handle_(handle) {}
  Owned(Owned&& other) noexcept : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (handle_ == Handle{}) return;
    const CurrentContext current(*context_);
    (context_->driver().*kRelease)(handle_);
  }
  Handle get() const { return handle_; }

 private:
  std::shared_ptr<const PrimaryContext> context_;
  Handle handle_;
};

using Module = Owned<ModuleHandle, &Driver::module_unload>;
using Stream = Owned<StreamHandle, &Driver::stream_destroy>;
using Event = Owned<EventHandle, &Driver::event_destroy>;

// Each makes its handle in the context, which must be current.
Result<Stream> make_stream(std::shared_ptr<const PrimaryContext> context);
Result<Event> make_event(std::shared_ptr<const PrimaryContext> context);
// `image` is PTX text or a cubin. The error holds what the driver's compiler has to say.
Result<Module> load_module(std::shared_ptr<const PrimaryContext> context, const std::string& image);

}  // namespace headnorm::cuda
