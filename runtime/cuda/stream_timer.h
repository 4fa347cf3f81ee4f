// StreamTimer: how long the device takes for work on a stream, without the time in which the work is queued.
#pragma once

#include <functional>
#include <memory>

#include "runtime/cuda/handles.h"

namespace headnorm::cuda {

// For one measurement at a time.
class StreamTimer {
 public:
  // The context must be current, here and below.
  static Result<StreamTimer> make(std::shared_ptr<const PrimaryContext> context);

  // Waits for what `queue_work` has put on the stream; its error, or the driver's.
  Result<double> time_us(StreamHandle stream, const std::function<Result<void>()>& queue_work) const;

 private:
  StreamTimer(std::shared_ptr<const PrimaryContext> context, Module hold_module, FunctionHandle hold, Event begin, Event end)
      : context_(std::move(context)),
        hold_module_(std::move(hold_module)),
        hold_(hold),
        begin_(std::move(begin)),
        end_(std::move(end)) {}

  Result<void> check(Status status, const char* what) const { return context_->driver().check(status, what); }
  Result<void> hold(StreamHandle stream) const;

  std::shared_ptr<const PrimaryContext> context_;
  Module hold_module_;
  FunctionHandle hold_;
  Event begin_, end_;
};

}  // namespace headnorm::cuda
