// The tuner with the real generator, host device and database, on shapes that a few seconds are enough for.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "generator/generator.h"
#include "generator/program/evaluate.h"
#include "tuner/host_copy.h"
#include "tuner/tuner.h"

namespace headnorm {
namespace {

class HostTuning : public testing::TestWithParam<const char*> {
 protected:
  HostTuning() {
    std::string name = (std::filesystem::temp_directory_path() / "headnorm_test_XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~HostTuning() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
};

// Every candidate of the generator is right, whatever the spec: none may be refused by the compiler, the device or the reference.
TEST_P(HostTuning, EveryCandidateIsRightAndTheWinnerIsServed) {
  const KernelSpec spec = *parse_spec(GetParam());
  const Result<program::Program> program = build_program(spec);
  ASSERT_TRUE(program.ok());
  auto device = make_host_device(1);
  ASSERT_TRUE(device.ok());
  auto database = Database::open(directory_);
  ASSERT_TRUE(database.ok()) << database.error().message;
  const auto backend = make_llvm_backend();
  const DeviceInfo& info = (*device)->info();

  TuneServices services{**device, *backend, **database, {}, {}, {}, {}, {}, {}};
  services.reference = [&](const KernelSpec&, const RowValues& inputs) {
    program::RowOutputs outputs = program::evaluate(*program, inputs);
    return ReferenceRow{std::move(outputs.y), std::move(outputs.residual_out)};
  };
  services.make_copy = [&](std::int64_t largest_bytes) { return make_host_copy(info, CachePolicy::warm, largest_bytes); };
  services.now_s = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };

  TuneRequest request;
  request.spec = spec;
  request.rows = {40};
  request.policy = CachePolicy::warm;
  request.search = SearchKind::random;
  request.budget_s = 4;
  const Result<TuneReport> report = tune(request, services);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const Record& record = report->results.at(0).record;
  for (const auto& [kind, count] : record.candidates.rejected) EXPECT_EQ(kind, "illegal") << count;
  EXPECT_GE(record.candidates.measured, 1);
  EXPECT_GT(record.copy_ratio, 0);

  const Result<Lookup> lookup = (*database)->look_up(spec, 40, info);
  ASSERT_TRUE(lookup.ok());
  EXPECT_EQ(lookup->served, Served::exact);
  EXPECT_EQ(lookup->schedule, record.schedule);
  const Result<std::optional<Artifact>> stored = (*database)->load_kernel(record.kernel);
  ASSERT_TRUE(stored.ok());
  EXPECT_TRUE(stored->has_value());

  // What a process without a compiler needs for misaligned tensors is there, too.
  const Plan plan = *make_plan(spec, record.schedule, info.target);
  const Plan twin = *make_plan(spec, unaligned_schedule(plan), info.target);
  const Result<std::optional<Artifact>> unaligned = (*database)->find_kernel(artifact_key(twin, backend->identity()));
  ASSERT_TRUE(unaligned.ok());
  EXPECT_TRUE(unaligned->has_value()) << to_text(twin.schedule);
}

INSTANTIATE_TEST_SUITE_P(
    Specs, HostTuning,
    testing::Values(
        "width=512,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06",
        "width=300,head_size=100,x=f32,y=f32,weight=shared:f32,eps=1e-06,residual=inplace:f32",
        "width=384,head_size=96,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,residual=add:bf16,gate=seednorm,seed_heads=2"));

}  // namespace
}  // namespace headnorm
