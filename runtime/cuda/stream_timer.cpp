#include "runtime/cuda/stream_timer.h"

#include <cstdint>

namespace headnorm::cuda {
namespace {

// Holds the GPU back while a timed launch is queued behind it: events that wait on an idle GPU would time the queueing, too.
constexpr const char* kHoldPtx = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry headnorm_hold(.param .u64 nanoseconds)
{
	.reg .pred %wait;
	.reg .b64 %start, %now, %length, %passed;
	ld.param.u64 %length, [nanoseconds];
	mov.u64 %start, %globaltimer;
again:
	mov.u64 %now, %globaltimer;
	sub.s64 %passed, %now, %start;
	setp.lt.u64 %wait, %passed, %length;
	@%wait bra again;
	ret;
}
)";
constexpr std::uint64_t kHoldNanoseconds = 100000;

}  // namespace

Result<StreamTimer> StreamTimer::make(std::shared_ptr<const PrimaryContext> context) {
  HEADNORM_TRY(Module module, load_module(context, kHoldPtx));
  FunctionHandle hold = nullptr;
  const Driver& driver = context->driver();
  HEADNORM_CHECK(driver.check(driver.module_get_function(&hold, module.get(), "headnorm_hold"), "cuModuleGetFunction"));
  HEADNORM_TRY(Event begin, make_event(context));
  HEADNORM_TRY(Event end, make_event(context));
  return StreamTimer(std::move(context), std::move(module), hold, std::move(begin), std::move(end));
}

Result<void> StreamTimer::hold(StreamHandle stream) const {
  std::uint64_t nanoseconds = kHoldNanoseconds;
  void* parameters[] = {&nanoseconds};
  LaunchConfig config;
  config.stream = stream;
  return check(context_->driver().launch_kernel(&config, hold_, parameters, nullptr), "cuLaunchKernelEx");
}

Result<double> StreamTimer::time_us(StreamHandle stream, const std::function<Result<void>()>& queue_work) const {
  const Driver& driver = context_->driver();
  HEADNORM_CHECK(hold(stream));
  HEADNORM_CHECK(check(driver.event_record(begin_.get(), stream), "cuEventRecord"));
  HEADNORM_CHECK(queue_work());
  HEADNORM_CHECK(check(driver.event_record(end_.get(), stream), "cuEventRecord"));
  HEADNORM_CHECK(check(driver.event_synchronize(end_.get()), "cuEventSynchronize"));
  float milliseconds = 0;
  HEADNORM_CHECK(check(driver.event_elapsed_time(&milliseconds, begin_.get(), end_.get()), "cuEventElapsedTime"));
  return static_cast<double>(milliseconds) * 1e3;
}

}  // namespace headnorm::cuda
