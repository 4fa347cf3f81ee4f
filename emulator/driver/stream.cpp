// Streams, events, and graphs that are captured and replayed.
#include <algorithm>

#include "emulator/driver/state.h"

using namespace headnorm::emulator::driver;

namespace {

constexpr double kEventUs = 1;  // events are this far apart in the model of time, at least

// The current context's stream of this handle; a failure is in `result`.
DriverStream* take_stream(CUstream handle, CUresult& result) {
  DriverContext* context = current_context(result);
  if (context == nullptr) return nullptr;
  DriverStream* stream = find_stream(*context, handle);
  if (stream == nullptr) result = CUDA_ERROR_INVALID_HANDLE;
  return stream;
}

DriverEvent* take_event(CUevent handle, CUresult& result) {
  DriverContext* context = current_context(result);
  if (context == nullptr) return nullptr;
  result = contains(context->events, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  return result == CUDA_SUCCESS ? reinterpret_cast<DriverEvent*>(handle) : nullptr;
}

CUresult complete(DriverEvent& event) {
  event.context->clock_us += kEventUs;
  event.time_us = event.context->clock_us;
  event.is_done = true;
  return CUDA_SUCCESS;
}

CUresult wait_for(DriverEvent& event) {
  if (event.is_done || event.stream == nullptr) return CUDA_SUCCESS;
  return finish(*event.stream);
}

}  // namespace

HEADNORM_DRIVER_EXPORT CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned int flags, int priority) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (handle == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_unique<DriverStream>();
  stream->context = context;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  *handle = reinterpret_cast<CUstream>(stream.get());
  context->streams.insert(std::move(stream));
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuStreamCreate(CUstream* handle, unsigned int flags) {
  return cuStreamCreateWithPriority(handle, flags, 0);
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverStream* stream = take_stream(handle, result);
  if (stream == nullptr) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  finish(*stream);
  DriverContext& context = *stream->context;
  for (const std::unique_ptr<DriverEvent>& event : context.events) {
    if (event->stream == stream) event->stream = nullptr;
  }
  erase(context.streams, stream);
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

HEADNORM_DRIVER_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverStream* stream = take_stream(handle, result);
  if (stream == nullptr) return result;
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  result = finish(*stream);
  device_of(*stream->context).settle();
  return result == CUDA_SUCCESS ? stream->context->sticky : result;
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamQuery(CUstream handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverStream* stream = take_stream(handle, result);
  if (stream == nullptr) return result;
  if (stream->queue.empty()) return CUDA_SUCCESS;
  // A program that asks again and again must get on: each question does one piece of work.
  result = finish_next(*stream);
  return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : result;
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  const DriverStream* stream = take_stream(handle, result);
  if (stream != nullptr) *flags = stream->flags;
  return result;
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  const DriverStream* stream = take_stream(handle, result);
  if (stream != nullptr) *priority = stream->priority;
  return result;
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  const DriverStream* stream = take_stream(handle, result);
  if (stream != nullptr) *context = reinterpret_cast<CUcontext>(stream->context);
  return result;
}

HEADNORM_DRIVER_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverStream* stream = take_stream(handle, result);
  if (stream == nullptr) return result;
  return submit(*stream, [=] {
    function(data);
    return CUDA_SUCCESS;
  });
}

// ---- events ----
HEADNORM_DRIVER_EXPORT CUresult cuEventCreate(CUevent* handle, unsigned int flags) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverContext* context = current_context(result);
  if (context == nullptr) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_unique<DriverEvent>();
  event->context = context;
  event->flags = flags;
  *handle = reinterpret_cast<CUevent>(event.get());
  context->events.insert(std::move(event));
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverEvent* event = take_event(handle, result);
  if (event == nullptr) return result;
  wait_for(*event);
  erase(event->context->events, event);
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

HEADNORM_DRIVER_EXPORT CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverEvent* event = take_event(handle, result);
  if (event == nullptr) return result;
  DriverStream* stream = take_stream(stream_handle, result);
  if (stream == nullptr) return result;
  event->capture = stream->capture;
  if (stream->capture != nullptr) return CUDA_SUCCESS;
  event->is_recorded = true;
  event->is_done = false;
  event->stream = stream;
  return submit(*stream, [event] { return complete(*event); });
}
HEADNORM_DRIVER_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

HEADNORM_DRIVER_EXPORT CUresult cuEventQuery(CUevent handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverEvent* event = take_event(handle, result);
  if (event == nullptr) return result;
  if (event->is_done) return CUDA_SUCCESS;
  wait_for(*event);  // the next question is answered
  return CUDA_ERROR_NOT_READY;
}

HEADNORM_DRIVER_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverEvent* event = take_event(handle, result);
  if (event == nullptr) return result;
  result = wait_for(*event);
  return result == CUDA_SUCCESS ? event->context->sticky : result;
}

HEADNORM_DRIVER_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin_handle, CUevent end_handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  const DriverEvent* begin = take_event(begin_handle, result);
  if (begin == nullptr) return result;
  const DriverEvent* end = take_event(end_handle, result);
  if (end == nullptr) return result;
  if (!begin->is_recorded || !end->is_recorded || ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!begin->is_done || !end->is_done) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>((end->time_us - begin->time_us) / 1000);
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, begin, end);
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverEvent* event = take_event(handle, result);
  if (event == nullptr) return result;
  DriverStream* stream = take_stream(stream_handle, result);
  if (stream == nullptr) return result;
  if (event->capture != nullptr) {  // the stream joins the capture that the event belongs to
    stream->capture = event->capture;
    return CUDA_SUCCESS;
  }
  return submit(*stream, [event] { return wait_for(*event); });
}

// ---- capture and graphs ----
HEADNORM_DRIVER_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverStream* stream = take_stream(handle, result);
  if (stream == nullptr) return result;
  if (stream == &stream->context->null_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto graph = std::make_unique<DriverGraph>();
  stream->capture = graph.get();
  stream->capture_mode = mode;
  stream->is_capture_origin = true;
  driver().graphs.insert(std::move(graph));
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return cuStreamBeginCapture_v2(stream, mode);
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverStream* stream = take_stream(handle, result);
  if (stream == nullptr) return result;
  if (graph == nullptr || stream->capture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!stream->is_capture_origin) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  *graph = reinterpret_cast<CUgraph>(stream->capture);
  DriverGraph* captured = stream->capture;
  for (const std::unique_ptr<DriverStream>& other : stream->context->streams) {
    if (other->capture == captured) other->capture = nullptr;
  }
  for (const std::unique_ptr<DriverEvent>& event : stream->context->events) {
    if (event->capture == captured) event->capture = nullptr;
  }
  stream->is_capture_origin = false;
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  const DriverStream* stream = take_stream(handle, result);
  if (stream != nullptr) *status = stream->capture != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return result;
}

HEADNORM_DRIVER_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, unsigned long long* id) {
  if (id != nullptr) *id = 1;
  return cuStreamIsCapturing(stream, status);
}

HEADNORM_DRIVER_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph handle, unsigned long long) {
  const std::lock_guard guard(driver().lock);
  if (executable == nullptr || !contains(driver().graphs, handle)) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<DriverGraph>(*reinterpret_cast<DriverGraph*>(handle));
  *executable = reinterpret_cast<CUgraphExec>(made.get());
  driver().executables.insert(std::move(made));
  return CUDA_SUCCESS;
}
HEADNORM_DRIVER_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* executable, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return cuGraphInstantiateWithFlags(executable, graph, 0);
}
HEADNORM_DRIVER_EXPORT CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return cuGraphInstantiateWithFlags(executable, graph, 0);
}

HEADNORM_DRIVER_EXPORT CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  const std::lock_guard guard(driver().lock);
  CUresult result{};
  DriverStream* stream = take_stream(stream_handle, result);
  if (stream == nullptr) return result;
  if (!contains(driver().executables, handle)) return CUDA_ERROR_INVALID_VALUE;
  for (const Work& work : reinterpret_cast<DriverGraph*>(handle)->work) {
    result = submit(*stream, work);
    if (result != CUDA_SUCCESS) break;
  }
  return stream->context->sticky != CUDA_SUCCESS ? CUDA_SUCCESS : result;
}
HEADNORM_DRIVER_EXPORT CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }

HEADNORM_DRIVER_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode*, std::size_t* count) {
  const std::lock_guard guard(driver().lock);
  if (count == nullptr || !contains(driver().graphs, handle)) return CUDA_ERROR_INVALID_VALUE;
  *count = reinterpret_cast<DriverGraph*>(handle)->work.size();
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  const std::lock_guard guard(driver().lock);
  if (!contains(driver().graphs, handle)) return CUDA_ERROR_INVALID_VALUE;
  erase(driver().graphs, handle);
  return CUDA_SUCCESS;
}

HEADNORM_DRIVER_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
  const std::lock_guard guard(driver().lock);
  if (!contains(driver().executables, handle)) return CUDA_ERROR_INVALID_VALUE;
  erase(driver().executables, handle);
  return CUDA_SUCCESS;
}
