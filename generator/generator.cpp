#include "generator/generator.h"

#include <fmt/format.h>

#include <mutex>
#include <vector>

#include "generator/algorithm/forward.h"
#include "generator/backend/cuda_c/nvrtc.h"
#include "generator/backend/cuda_c/source.h"
#include "generator/backend/cuda_c/template.h"
#include "generator/backend/llvm/session.h"

namespace headnorm {

using llvm_backend::Output;
using llvm_backend::Session;

namespace {

// Raised whenever the programs or the lowerings change the code they produce: stored kernels of older versions are then misses.
constexpr int kProgramVersion = 1;
constexpr int kRenderingVersion = 2;  // of CUDA C, but for the templates
constexpr int kLoweringVersion = 7;

class NvrtcBackend final : public CodegenBackend {
 public:
  explicit NvrtcBackend(std::shared_ptr<const cuda_c::Nvrtc> nvrtc) : nvrtc_(std::move(nvrtc)) {}

  std::string identity() const override {
    return fmt::format("nvrtc-{}/{}/templates-{}/program-{}/rendering-{}", nvrtc_->version(), cuda_c::Nvrtc::flags(),
                       cuda_c::templates_digest(), kProgramVersion, kRenderingVersion);
  }

  Result<Artifact> compile(const Plan& plan) override {
    HEADNORM_TRY(const std::string source, render_cuda(plan));
    HEADNORM_TRY(std::string ptx, nvrtc_->compile(source, entry_name(plan), plan.target));
    return Artifact{.kind = ArtifactKind::ptx,
                    .entry = entry_name(plan),
                    .bytes = std::move(ptx),
                    .key = artifact_key(plan, identity()),
                    .backend = identity()};
  }

 private:
  std::shared_ptr<const cuda_c::Nvrtc> nvrtc_;
};

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

Result<std::unique_ptr<CodegenBackend>> make_nvrtc_backend(const std::string& library) {
  HEADNORM_TRY(std::shared_ptr<const cuda_c::Nvrtc> nvrtc, cuda_c::Nvrtc::open(library));
  return std::unique_ptr<CodegenBackend>(std::make_unique<NvrtcBackend>(std::move(nvrtc)));
}

Result<std::string> render_cuda(const Plan& plan) {
  HEADNORM_TRY(const program::Program program, build_program(plan.spec));
  return cuda_c::render_source(plan, program);
}

}  // namespace headnorm
