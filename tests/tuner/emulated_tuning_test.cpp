// The tuner on emulated GPUs: every candidate of the generator is right, and bad ones neither end the search nor spoil the rest.
#include <gtest/gtest.h>

#include <functional>

#include "generator/generator.h"
#include "generator/program/evaluate.h"
#include "tests/fixtures/emulated_device.h"
#include "tests/support/temporary_directory.h"
#include "tuner/tuner.h"

namespace headnorm {
namespace {

// Does what it is told to with the artifact of the n-th compilation, counted from 1.
class SpoilingBackend final : public CodegenBackend {
 public:
  std::function<Result<void>(int, Artifact&)> spoil;

  std::string identity() const override { return backend_->identity(); }
  Result<Artifact> compile(const Plan& plan) override {
    HEADNORM_TRY(Artifact artifact, backend_->compile(plan));
    if (spoil) HEADNORM_CHECK(spoil(++compilations_, artifact));
    return artifact;
  }

 private:
  std::unique_ptr<CodegenBackend> backend_ = make_llvm_backend();
  int compilations_ = 0;
};

void insert_at_first_load(Artifact& artifact, const char* text) { artifact.bytes.insert(artifact.bytes.find("ld.global"), text); }

class EmulatedTuning : public ::testing::Test {
 protected:
  // With a device of its own each time, as another process has it.
  Result<Record> tune_on(const char* model, const char* spec_text) {
    const KernelSpec spec = *parse_spec(spec_text);
    HEADNORM_TRY(const program::Program program, build_program(spec));
    HEADNORM_TRY(const auto device, fixtures::make_emulated_device(model));
    HEADNORM_TRY(const auto database, Database::open(directory_.path() / "db"));
    TuneServices services{*device, backend_, *database, {}, {}, {}, {}, {}, {}};
    services.reference = [&](const KernelSpec&, const RowValues& inputs) {
      program::RowOutputs outputs = program::evaluate(program, inputs);
      return ReferenceRow{std::move(outputs.y), std::move(outputs.residual_out)};
    };
    // Passes with what the search does, so that a busy machine does not see fewer candidates.
    services.now_s = [looks = 0]() mutable { return kSecondsALook * ++looks; };
    TuneRequest request;
    request.spec = spec;
    request.rows = {5};
    request.policy = CachePolicy::warm;
    request.search = SearchKind::random;
    request.budget_s = 1;
    HEADNORM_TRY(const TuneReport report, tune(request, services));
    return report.results.at(0).record;
  }

  static int rejected(const Record& record, const std::string& kind) {
    const auto found = record.candidates.rejected.find(kind);
    return found == record.candidates.rejected.end() ? 0 : found->second;
  }

  static constexpr double kSecondsALook = 1e-2;
  static constexpr const char* kSpec = "width=512,head_size=128,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06";

  test::TemporaryDirectory directory_;
  SpoilingBackend backend_;
};

TEST_F(EmulatedTuning, EveryCandidateIsRightOnEveryModel) {
  for (const char* model : {"a100", "h200", "b200", "rtx5090"}) {
    for (const char* spec : {kSpec, "width=384,head_size=96,residual=inplace:bf16,gate=seednorm,seed_heads=2"}) {
      const Result<Record> record = tune_on(model, spec);
      ASSERT_TRUE(record.ok()) << model << ": " << record.error().message;
      for (const auto& [kind, count] : record->candidates.rejected) EXPECT_EQ(kind, "illegal") << count << " on " << model;
      EXPECT_GE(record->candidates.measured, 1);
      EXPECT_EQ(record->evidence, Evidence::emulated);
    }
  }
}

TEST_F(EmulatedTuning, CandidatesThatFailAreCountedByKindAndAnotherWins) {
  backend_.spoil = [](int n, Artifact& artifact) -> Result<void> {
    if (n == 1) return internal_error("no register left");
    if (n == 2) insert_at_first_load(artifact, "frobnicate; ");
    if (n == 3) insert_at_first_load(artifact, "ret; ");  // writes nothing
    return {};
  };
  const Result<Record> record = tune_on("h200", kSpec);
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(rejected(*record, "compile"), 1);
  EXPECT_EQ(rejected(*record, "load"), 1);
  EXPECT_EQ(rejected(*record, "incorrect"), 1);
  EXPECT_GE(record->candidates.measured, 1);
}

// A fault takes the context and with it the process's search; the next search passes over the candidate, and over it alone.
TEST_F(EmulatedTuning, AFaultEndsTheSearchAndTheNextOnePassesOverIt) {
  backend_.spoil = [](int n, Artifact& artifact) -> Result<void> {
    if (n == 3) insert_at_first_load(artifact, "trap; ");
    return {};
  };
  const Result<Record> faulted = tune_on("h200", kSpec);
  ASSERT_FALSE(faulted.ok());
  EXPECT_EQ(faulted.error().kind, ErrorKind::environment);
  EXPECT_NE(faulted.error().message.find("rule: trap"), std::string::npos) << faulted.error().message;
  const Result<Record> record = tune_on("h200", kSpec);
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(rejected(*record, "crash"), 1);
  EXPECT_EQ(rejected(*record, "launch"), 0);
  EXPECT_GE(record->candidates.measured, 1);
}

}  // namespace
}  // namespace headnorm
