#include "runtime/kernel_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/device_compiler.h"

namespace headnorm {
namespace {

using Kernel = std::shared_ptr<const LoadedKernel>;

// One for each kernel, whoever compiles it.
std::string memory_key(const Plan& plan) {
  return fmt::format("{};{};{}", to_text(plan.spec), to_text(plan.schedule), to_text(plan.target));
}

// A kernel, or the promise of one.
struct Slot {
  std::shared_future<Result<Kernel>> kernel;
  pid_t maker = 0;

  bool ready() const { return kernel.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  // Whether a kernel will never come: its maker is a thread that fork() left behind in the parent.
  bool abandoned() const { return !ready() && maker != ::getpid(); }
};

// The same plan for the other versions of PTX that a kernel may be stored for: the record's, and those of older drivers from the
// newest on. A driver takes every older version.
std::vector<Plan> plans_for_other_ptx(const Plan& plan, const Target& recorded) {
  std::vector<Plan> plans;
  if (plan.target.kind != TargetKind::gpu) return plans;
  const auto add = [&](Target target) {
    if (target.ptx == plan.target.ptx) return;
    if (Result<Plan> other = make_plan(plan.spec, plan.schedule, target); other.ok()) plans.push_back(*std::move(other));
  };
  if (processor_name(recorded) == processor_name(plan.target)) add(recorded);
  Target older = plan.target;
  for (const int lowest = make_gpu_target(older.sm, older.variant).ptx; older.ptx > lowest;) {
    --older.ptx;
    if (older != recorded) add(older);
  }
  return plans;
}

}  // namespace

struct KernelCache::State {
  Device& device;
  Database* database;
  CodegenBackend* backend;
  JitMode mode;

  std::mutex mutex;  // of all below
  std::unordered_map<std::string, Slot> slots;
  Counters counters;
  std::atomic<bool> makes_code = true;  // until code that was made does not load

  bool can_compile() const { return backend != nullptr && mode == JitMode::allowed; }

  void count(int Counters::*counter) {
    const std::lock_guard lock(mutex);
    ++(counters.*counter);
  }

  // None if it is not stored, or stored and of no use, which `refused` then tells.
  Kernel load_stored_as(const std::string& key, const Plan& plan, std::optional<Error>& refused) {
    const Result<std::optional<Artifact>> artifact = database->find_kernel(key);
    if (!artifact.ok() || !artifact->has_value()) return nullptr;
    Result<Kernel> kernel = load(**artifact, plan);
    if (kernel.ok()) return std::move(*kernel);
    database->warn("kernel", fmt::format("the stored kernel {} is passed over: {}", key, kernel.error().message));
    refused = kernel.error();
    return nullptr;
  }

  // In the form for exactly this device, or else in the portable one.
  Kernel load_stored(const Plan& plan, const std::string& identity, std::optional<Error>& refused) {
    if (database == nullptr || identity.empty()) return nullptr;
    const std::string key = artifact_key(plan, identity);
    Kernel kernel;
    if (DeviceCompiler* compiler = device.compiler())
      kernel = load_stored_as(device_code_key(key, compiler->identity(plan.target)), plan, refused);
    if (kernel == nullptr) kernel = load_stored_as(key, plan, refused);
    if (kernel != nullptr) count(&Counters::database_hits);
    return kernel;
  }

  // Portable kernels are made into code for this device first, where that can be kept: the next process compiles nothing.
  Result<Kernel> load(const Artifact& artifact, const Plan& plan) {
    const bool is_wanted = artifact.kind == ArtifactKind::ptx && mode == JitMode::allowed && database != nullptr && makes_code;
    DeviceCompiler* compiler = is_wanted ? device.compiler() : nullptr;
    if (compiler == nullptr) return device.load(artifact, plan);
    Result<Kernel> as_code = load_as_code(*compiler, artifact, plan);
    if (as_code.ok()) return as_code;
    Result<Kernel> portable = device.load(artifact, plan);
    // Only then it is the code that is at fault: it is of no use here, and not made again.
    if (portable.ok()) {
      makes_code = false;
      database->warn("device code", fmt::format("kernels are loaded in their portable form: {}", as_code.error().message));
    }
    return portable;
  }

  Result<Kernel> load_as_code(DeviceCompiler& compiler, const Artifact& portable, const Plan& plan) {
    HEADNORM_TRY(const DeviceCode code, compiler.compile(portable, plan.target));
    HEADNORM_TRY(Kernel kernel, device.load(code.artifact, plan));
    (void)database->store_kernel(code.artifact, code.log);
    return kernel;
  }

  Result<Kernel> compile(const Plan& plan) {
    count(&Counters::compilations);
    HEADNORM_TRY(const Artifact artifact, backend->compile(plan));
    HEADNORM_TRY(Kernel kernel, load(artifact, plan));
    // A kernel that cannot be stored serves from memory; the database has said why.
    if (database != nullptr) (void)database->store_kernel(artifact);
    return kernel;
  }

  // `refused`: why what is stored is of no use, if anything is.
  Error missing(const Plan& plan, const std::optional<Error>& refused) const {
    const bool forbidden = backend != nullptr;
    std::string message = fmt::format("no kernel of spec '{}' with schedule '{}' for {} is stored{}, and {}", to_text(plan.spec),
                                      to_text(plan.schedule), to_text(plan.target),
                                      database == nullptr ? "" : fmt::format(" in '{}'", database->directory().string()),
                                      forbidden ? "compiling is forbidden" : "this program has no compiler");
    std::string remedy =
        fmt::format("store it with `headnorm tune --spec '{}' --rows R --device {} --db DIR`, or {}", to_text(plan.spec),
                    device.info().id, forbidden ? "allow compiling" : "use a build with the generator");
    if (refused) {
      message += fmt::format("; one that is stored is refused: {}", refused->message);
      if (!refused->remedy.empty()) remedy = fmt::format("{}; or {}", refused->remedy, remedy);
    }
    return forbidden ? user_error(std::move(message), std::move(remedy)) : environment_error(std::move(message), std::move(remedy));
  }

  Result<Kernel> make(const Plan& plan, const StoredBy& stored_by) {
    std::optional<Error> refused;
    const std::string own = backend != nullptr ? backend->identity() : "";
    if (Kernel kernel = load_stored(plan, own, refused)) return kernel;
    if (can_compile()) return compile(plan);
    const std::array<std::string, 2> makers{own, stored_by.backend == own ? "" : stored_by.backend};
    if (Kernel kernel = load_stored(plan, makers[1], refused)) return kernel;
    for (const Plan& other : plans_for_other_ptx(plan, stored_by.target)) {
      for (const std::string& identity : makers) {
        if (Kernel kernel = load_stored(other, identity, refused)) return kernel;
      }
    }
    return missing(plan, refused);
  }

  // Others wait for what comes of this: an exception (memory, mostly) must not leave them a promise that nobody keeps.
  Result<Kernel> make_or_error(const Plan& plan, const StoredBy& stored_by) {
    try {
      return make(plan, stored_by);
    } catch (const std::exception& exception) {
      return environment_error(fmt::format("making the kernel of '{}' failed: {}", to_text(plan.spec), exception.what()),
                               "free memory and try again");
    } catch (...) {
      return environment_error(fmt::format("making the kernel of '{}' failed with a foreign exception", to_text(plan.spec)),
                               "let no exception leave the functions that are handed to headnorm");
    }
  }
};

KernelCache::KernelCache(Device& device, Database* database, CodegenBackend* backend, JitMode mode)
    : state_(new State{device, database, backend, mode, {}, {}, {}, true}) {}

KernelCache::~KernelCache() = default;

Result<std::shared_ptr<const LoadedKernel>> KernelCache::get(const Plan& plan, const StoredBy& stored_by) {
  const std::string key = memory_key(plan);
  std::promise<Result<Kernel>> promise;
  {
    std::unique_lock lock(state_->mutex);
    Slot& slot = state_->slots[key];
    if (slot.kernel.valid() && !slot.abandoned()) {
      ++state_->counters.memory_hits;
      const std::shared_future<Result<Kernel>> kernel = slot.kernel;
      lock.unlock();
      return kernel.get();
    }
    slot = {promise.get_future().share(), ::getpid()};
  }
  Result<Kernel> kernel = state_->make_or_error(plan, stored_by);
  if (!kernel.ok()) {
    const std::lock_guard lock(state_->mutex);
    state_->slots.erase(key);
  }
  promise.set_value(kernel);
  return kernel;
}

Result<std::shared_ptr<const LoadedKernel>> KernelCache::find(const Plan& plan) const {
  const std::lock_guard lock(state_->mutex);
  const auto slot = state_->slots.find(memory_key(plan));
  if (slot != state_->slots.end() && slot->second.ready()) {
    if (Result<Kernel> kernel = slot->second.kernel.get(); kernel.ok()) return kernel;
  }
  return user_error(fmt::format("the kernel of spec '{}' with schedule '{}' for {} is not among those that were loaded",
                                to_text(plan.spec), to_text(plan.schedule), to_text(plan.target)),
                    "prepare() this spec and row count, or tune it into the table that is warmed");
}

JitMode KernelCache::mode() const { return state_->mode; }

KernelCache::Counters KernelCache::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

}  // namespace headnorm
