#include "runtime/runtime.h"

#include <fmt/format.h>

#include <bit>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace headnorm {
namespace {

enum class Alignment : std::uint8_t {
  planned,  // as the kernel chosen asks for
  any,      // its unaligned twin
};

struct Key {
  KernelSpec spec;
  std::int64_t rows = 0;
  Alignment alignment = Alignment::planned;
  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const KernelSpec& s = key.spec;
    const auto small = [](auto value) { return static_cast<std::uint64_t>(value); };
    std::uint64_t hash = 0;
    for (std::uint64_t field :
         {small(s.width), small(s.head_size), small(key.rows), small(s.seed_heads), std::bit_cast<std::uint64_t>(s.eps),
          std::bit_cast<std::uint64_t>(s.weight_offset), std::bit_cast<std::uint64_t>(s.residual_scale),
          std::bit_cast<std::uint64_t>(s.seed_scale),
          small(s.x_dtype) | small(s.residual_dtype) << 4 | small(s.weight_dtype) << 8 | small(s.y_dtype) << 12 |
              small(s.weight) << 16 | small(s.residual) << 20 | small(s.gate) << 24 | small(s.sigma) << 28 |
              small(s.rounding) << 32 | small(s.norm_input) << 36 | small(s.mode) << 40 | small(key.alignment) << 44})
      hash = (std::rotl(hash, 23) ^ field) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(hash ^ hash >> 32);
  }
};

struct Entry {
  LaunchReport report;
  std::string stored_by;  // see KernelCache::get
  std::shared_ptr<const LoadedKernel> kernel;
};
using EntryPointer = std::shared_ptr<const Entry>;

// Programs with ever new row counts would fill memory: past this many the map starts anew, and kernels come from the cache again.
constexpr std::size_t kMaxEntries = 65536;

}  // namespace

struct Runtime::State {
  Device& device;
  Database* database;
  KernelCache cache;
  std::shared_mutex mutex;  // of entries
  std::unordered_map<Key, EntryPointer, KeyHash> entries;

  State(Device& device_used, Database* database_used, CodegenBackend* backend, JitMode mode)
      : device(device_used), database(database_used), cache(device_used, database_used, backend, mode) {}

  EntryPointer find(const Key& key) {
    const std::shared_lock lock(mutex);
    const auto found = entries.find(key);
    return found == entries.end() ? nullptr : found->second;
  }

  // `stream`: the one that the kernel is going to be launched on, or null.
  Result<EntryPointer> get(const Key& key, void* stream) {
    if (EntryPointer found = find(key)) return found;
    HEADNORM_CHECK(device.check_can_load(stream));
    HEADNORM_TRY(Entry entry, key.alignment == Alignment::planned ? choose(key.spec, key.rows) : unaligned_twin(key, stream));
    const std::unique_lock lock(mutex);
    if (entries.size() >= kMaxEntries) entries.clear();
    return entries.try_emplace(key, std::make_shared<const Entry>(std::move(entry))).first->second;
  }

  Result<Entry> load(const KernelSpec& spec, const LaunchReport& report, const std::string& stored_by) {
    HEADNORM_TRY(const Plan plan, make_plan(spec, report.schedule, device.info().target));
    HEADNORM_TRY(auto kernel, cache.get(plan, stored_by));
    return Entry{{report.served, plan.schedule, report.record, report.from}, stored_by, std::move(kernel)};
  }

  LaunchReport default_report(const KernelSpec& spec) const {
    Lookup nothing;
    nothing.schedule = default_schedule(spec, device.info().target);
    return {nothing.served, nothing.schedule, "", describe(nothing)};
  }

  // The best schedule known; the default where its kernel cannot be had.
  Result<Entry> choose(const KernelSpec& spec, std::int64_t rows) {
    HEADNORM_TRY(const KernelSpec canonical, make_spec(spec));
    if (database == nullptr) return load(canonical, default_report(canonical), "");
    HEADNORM_TRY(const Lookup lookup, database->look_up(canonical, rows, device.info()));
    const std::string stored_by = lookup.record ? lookup.record->kernel.backend : "";
    Result<Entry> best =
        load(canonical, {lookup.served, lookup.schedule, lookup.record ? lookup.record->id : "", describe(lookup)}, stored_by);
    if (best.ok() || lookup.served == Served::fallback) return best;
    Result<Entry> fallback = load(canonical, default_report(canonical), stored_by);
    if (!fallback.ok()) return best;
    database->warn("winner",
                   fmt::format("record {} is passed over for the default schedule: {}", lookup.record->id, best.error().message));
    return fallback;
  }

  // The kernel that serves these tensors; rows > 0.
  Result<EntryPointer> get_for(const KernelSpec& spec, const LaunchArguments& arguments) {
    HEADNORM_TRY(EntryPointer entry, get({spec, arguments.rows, Alignment::planned}, arguments.stream));
    if (satisfies_alignment(entry->kernel->plan(), arguments)) return entry;
    return get({spec, arguments.rows, Alignment::any}, arguments.stream);
  }

  Result<Entry> unaligned_twin(const Key& key, void* stream) {
    HEADNORM_TRY(const EntryPointer planned, get({key.spec, key.rows, Alignment::planned}, stream));
    LaunchReport report = planned->report;
    report.schedule = unaligned_schedule(planned->kernel->plan());
    Result<Entry> twin = load(planned->kernel->plan().spec, report, planned->stored_by);
    if (twin.ok()) return twin;
    return Error{twin.error().kind,
                 fmt::format("the tensors lack the alignment that schedule '{}' asks for, and {}",
                             to_text(planned->report.schedule), twin.error().message),
                 "align addresses and row strides (Device::allocate aligns), or " + twin.error().remedy};
  }
};

Runtime::Runtime(Device& device, Database* database, CodegenBackend* backend, JitMode mode)
    : state_(std::make_unique<State>(device, database, backend, mode)) {}

Runtime::~Runtime() = default;

Result<LaunchReport> Runtime::prepare(const KernelSpec& spec, std::int64_t rows) {
  if (rows < 1) return user_error(fmt::format("rows is {}: must be 1 or more", rows), "give the row count that will be launched");
  HEADNORM_TRY(const EntryPointer entry, state_->get({spec, rows, Alignment::planned}, nullptr));
  return entry->report;
}

Result<LaunchReport> Runtime::prepare(const KernelSpec& spec, const LaunchArguments& arguments) {
  if (arguments.rows <= 0) return prepare(spec, arguments.rows);
  HEADNORM_TRY(const EntryPointer entry, state_->get_for(spec, arguments));
  return entry->report;
}

Result<LaunchReport> Runtime::run(const KernelSpec& spec, const LaunchArguments& arguments) {
  if (arguments.rows <= 0) {
    HEADNORM_TRY(const KernelSpec canonical, make_spec(spec));
    HEADNORM_CHECK(check_arguments(canonical, arguments));
    return state_->default_report(canonical);
  }
  HEADNORM_TRY(const EntryPointer entry, state_->get_for(spec, arguments));
  HEADNORM_CHECK(state_->device.launch(*entry->kernel, arguments));
  return entry->report;
}

}  // namespace headnorm
