#include "emulator/driver/state.h"

#include <utility>

namespace headnorm::emulator::driver {

// Never destroyed: other threads may be in a call while the process ends.
Driver& driver() {
  static Driver* const kDriver = new Driver;
  return *kDriver;
}

std::vector<DriverContext*>& context_stack() {
  thread_local std::vector<DriverContext*> stack;
  return stack;
}

namespace {

// A thread may keep a context current that another has ended.
bool is_alive(const DriverContext* context) {
  for (const DriverDevice& device : driver().devices) {
    if (device.primary.get() == context) return true;
  }
  return contains(driver().contexts, context);
}

}  // namespace

DriverContext* current_context(CUresult& result) {
  result = CUDA_ERROR_NOT_INITIALIZED;
  if (!driver().is_initialised) return nullptr;
  result = CUDA_ERROR_INVALID_CONTEXT;
  if (context_stack().empty() || context_stack().back() == nullptr) return nullptr;
  DriverContext* context = context_stack().back();
  if (!is_alive(context)) return nullptr;
  result = context->sticky;
  return result == CUDA_SUCCESS ? context : nullptr;
}

Device& device_of(const DriverContext& context) { return *driver().devices[static_cast<std::size_t>(context.device)].device; }

DriverStream* find_stream(DriverContext& context, CUstream handle) {
  constexpr std::uintptr_t kLegacy = 1, kPerThread = 2;  // names that the API gives to the null stream
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (handle == nullptr || number == kLegacy || number == kPerThread) return &context.null_stream;
  return contains(context.streams, handle) ? reinterpret_cast<DriverStream*>(handle) : nullptr;
}

namespace {

CUresult run(DriverContext& context, const Work& work) {
  if (context.sticky != CUDA_SUCCESS) return context.sticky;
  constexpr double kStepUs = 1;  // the model of time: every operation takes as long
  context.clock_us += kStepUs;
  return work();
}

}  // namespace

CUresult finish_next(DriverStream& stream) {
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  return run(*stream.context, work);
}

CUresult finish(DriverStream& stream) {
  CUresult first = CUDA_SUCCESS;
  while (!stream.queue.empty()) {
    const CUresult result = finish_next(stream);
    if (first == CUDA_SUCCESS) first = result;
  }
  return first;
}

CUresult finish(DriverContext& context) {
  CUresult first = finish(context.null_stream);
  for (const std::unique_ptr<DriverStream>& stream : context.streams) {
    const CUresult result = finish(*stream);
    if (first == CUDA_SUCCESS) first = result;
  }
  return first == CUDA_SUCCESS ? context.sticky : first;
}

CUresult submit(DriverStream& stream, Work work) {
  if (stream.capture != nullptr) {
    stream.capture->work.push_back(std::move(work));
    return CUDA_SUCCESS;
  }
  DriverContext& context = *stream.context;
  // The null stream comes after all that blocking streams have to do, and they after it.
  if (&stream == &context.null_stream) {
    for (const std::unique_ptr<DriverStream>& other : context.streams) {
      if ((other->flags & CU_STREAM_NON_BLOCKING) == 0) finish(*other);
    }
  } else if ((stream.flags & CU_STREAM_NON_BLOCKING) == 0) {
    finish(context.null_stream);
  }
  if (driver().eagerness == Eagerness::queued) {
    stream.queue.push_back(std::move(work));
    return context.sticky;
  }
  return run(context, work);
}

bool is_capture_strict() {
  const auto is_strict = [](const DriverContext& context) {
    for (const std::unique_ptr<DriverStream>& stream : context.streams) {
      if (stream->capture != nullptr && stream->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) return true;
    }
    return false;
  };
  for (const DriverDevice& device : driver().devices) {
    if (device.primary != nullptr && is_strict(*device.primary)) return true;
  }
  for (const std::unique_ptr<DriverContext>& context : driver().contexts) {
    if (is_strict(*context)) return true;
  }
  return false;
}

}  // namespace headnorm::emulator::driver
