// What the tests of the tuner share: devices, compilers and databases that obey, and times that make one plan the fastest.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fakes.h"
#include "tests/support/reference.h"
#include "tuner/tuner.h"

namespace headnorm::test {

inline constexpr const char* kPlain = "width=32,head_size=16,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06";
inline constexpr const char* kInplace = "width=32,head_size=16,x=f32,y=f32,weight=channel:f32,eps=1e-06,residual=inplace:f32";

inline std::string text_of(const Plan& plan) { return to_text(plan.schedule); }

// Smaller blocks are faster, and of those the ones that prefetch nothing: one plan is the fastest.
inline double time_by_schedule(const Plan& plan) {
  const HostSchedule& s = plan.host_schedule();
  double time = 10 + static_cast<double>(s.block_bytes) / 4096 + static_cast<double>(s.prefetch_bytes) / 8192;
  time += s.form == HostForm::split ? 0 : 3;
  time += s.store == StoreKind::plain ? 0.5 : 0;
  time += s.accumulators == 2 ? 0 : 0.1;
  time += s.rsqrt == RsqrtForm::newton ? 0 : 0.2;
  return time;
}

class TunerTest : public testing::Test {
 protected:
  TunerTest() {
    backend_.clock = device_.clock = &clock_;
    device_.time_us = time_by_schedule;
    request_.spec = *parse_spec(kPlain);
    request_.rows = {24};
    request_.tool = "headnorm test";
  }

  TuneServices services() {
    TuneServices services{device_, backend_, database_, {}, {}, {}, {}, {}, {}};
    services.reference = [](const KernelSpec& spec, const RowValues& inputs) {
      ReferenceRow row = reference_row(spec, inputs);
      return headnorm::ReferenceRow{row.y, row.residual_out};
    };
    services.make_copy = [](std::int64_t) { return Result<std::unique_ptr<CopyReference>>(std::make_unique<FakeCopy>()); };
    if (services_without_copy_) services.make_copy = nullptr;
    services.now_s = [this] { return clock_.now_s; };
    services.stop_requested = [this] { return polls_++ >= stop_after_ && stop_after_ >= 0; };
    services.warn = [this](const std::string& text) { warnings_.push_back(text); };
    services.progress = [this](const TuneProgress& progress) { progress_.push_back(progress); };
    return services;
  }

  Record tune_one() {
    const Result<TuneReport> report = tune(request_, services());
    EXPECT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->results.size(), 1u);
    return report->results.at(0).record;
  }

  // Of the plans that were compiled and have no fault.
  std::string fastest() {
    std::string best;
    double least = 1e9;
    for (const std::string& text : std::set<std::string>(backend_.compiled.begin(), backend_.compiled.end())) {
      const Result<Plan> plan = make_plan(request_.spec, *parse_schedule(text), device_.info().target);
      if (backend_.fault(*plan) != Fault::none) continue;
      if (const double time = time_by_schedule(*plan); time < least) {
        least = time;
        best = text;
      }
    }
    return best;
  }

  FakeClock clock_;
  FakeBackend backend_;
  FakeDevice device_;
  FakeDatabase database_;
  TuneRequest request_;
  std::vector<TuneProgress> progress_;
  std::vector<std::string> warnings_;
  int stop_after_ = -1, polls_ = 0;
  bool services_without_copy_ = false;
};

}  // namespace headnorm::test
