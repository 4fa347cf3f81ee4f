#include "generator/generator.h"

#include <fmt/format.h>

#include <mutex>
#include <vector>

#include "generator/algorithm/forward.h"
#include "generator/backend/llvm/session.h"

namespace headnorm {

using llvm_backend::Output;
using llvm_backend::Session;

namespace {

// Raised whenever the programs or the lowerings change the code they produce: stored kernels of older versions are then misses.
constexpr int kProgramVersion = 1;
constexpr int kLoweringVersion = 6;

class LlvmBackend final : public CodegenBackend {
 public:
  std::string identity() const override {
    return fmt::format("{}/program-{}/lowering-{}", llvm_backend::llvm_version(), kProgramVersion, kLoweringVersion);
  }

  Result<Artifact> compile(const Plan& plan) override {
    const bool gpu = plan.target.kind == TargetKind::gpu;
    HEADNORM_TRY(std::string bytes, compile_to(plan, gpu ? Output::assembly : Output::object));
    return Artifact{.kind = gpu ? ArtifactKind::ptx : ArtifactKind::object,
                    .entry = entry_name(plan),
                    .bytes = std::move(bytes),
                    .key = artifact_key(plan, identity()),
                    .backend = identity()};
  }

  Result<std::string> compile_to(const Plan& plan, Output output) {
    HEADNORM_TRY(const program::Program program, build_program(plan.spec));
    std::unique_ptr<Session> session = take_session();
    Result<std::string> bytes = session->compile(plan, program, output);
    give_back(std::move(session));
    return bytes;
  }

 private:
  std::unique_ptr<Session> take_session() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Session>();
    std::unique_ptr<Session> session = std::move(idle_.back());
    idle_.pop_back();
    return session;
  }

  void give_back(std::unique_ptr<Session> session) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(session));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;
};

}  // namespace

Result<program::Program> build_program(const KernelSpec& spec) {
  program::Program program = algorithm::build_forward(spec);
  HEADNORM_CHECK(program::verify(program));
  return program;
}

std::unique_ptr<CodegenBackend> make_llvm_backend() { return std::make_unique<LlvmBackend>(); }

Result<std::string> render_listing(const Plan& plan, Listing listing) {
  LlvmBackend backend;
  return backend.compile_to(plan, listing == Listing::llvm_ir ? Output::ir : Output::assembly);
}

}  // namespace headnorm
