#include "runtime/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/database/record_index.h"
#include "runtime/database/table_digest.h"
#include "runtime/insert_only_map.h"
#include "runtime/kernel_cache.h"

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

// Where a kernel may come from.
enum class Reach : std::uint8_t { anywhere, memory };

struct Entry {
  LaunchReport report;
  StoredBy stored_by;
  std::shared_ptr<const LoadedKernel> kernel;  // null for no rows
};

// Owns the entry only where it is not in the map.
using EntryPointer = std::shared_ptr<const Entry>;

// Programs with ever new row counts would fill memory: past this many, a new one is looked up at each launch.
constexpr std::size_t kMaxEntries = 65536;

}  // namespace

struct Runtime::State {
  Device& device;
  Database* database;
  KernelCache cache;
  InsertOnlyMap<Key, Entry, KeyHash> entries;

  std::atomic<const RecordIndex*> warmed{nullptr};  // of all warmed tables; null before the first
  std::mutex warm_mutex;                            // of the two below; never held while kernels are loaded
  std::vector<Record> warmed_records;
  std::vector<std::unique_ptr<const RecordIndex>> indices;  // the last is `warmed`; others may be in use

  std::mutex words_mutex;
  std::set<std::string> words;  // of reports: few, of what records there are

  State(Device& device_used, Database* database_used, CodegenBackend* backend, JitMode mode)
      : device(device_used), database(database_used), cache(device_used, database_used, backend, mode) {}

  // Whether a kernel that is not in memory is out of reach.
  bool is_sealed() const { return warmed.load(std::memory_order_acquire) != nullptr && cache.mode() == JitMode::forbidden; }

  LaunchReport make_report(const Lookup& lookup) {
    const std::lock_guard lock(words_mutex);
    return {lookup.served, lookup.schedule, lookup.record ? RecordId(lookup.record->id) : RecordId(),
            *words.insert(describe(lookup)).first};
  }

  static EntryPointer borrow(const Entry* entry) { return {std::shared_ptr<void>(), entry}; }

  // `stream`: the one that the kernel is going to be launched on, or null.
  Result<EntryPointer> get(const Key& key, void* stream, Reach reach) {
    if (const Entry* found = entries.find(key)) return borrow(found);
    if (reach == Reach::anywhere) HEADNORM_CHECK(device.check_can_load(stream));
    HEADNORM_TRY(Entry entry,
                 key.alignment == Alignment::planned ? choose(key.spec, key.rows, reach) : unaligned_twin(key, stream, reach));
    auto made = std::make_shared<const Entry>(std::move(entry));
    const Entry* const kept = entries.insert(key, *made, kMaxEntries);
    return kept == nullptr ? made : borrow(kept);
  }

  Result<Entry> load(const KernelSpec& spec, const LaunchReport& report, const StoredBy& stored_by, Reach reach) {
    HEADNORM_TRY(const Plan plan, make_plan(spec, report.schedule, device.info().target));
    HEADNORM_TRY(auto kernel, reach == Reach::memory ? cache.find(plan) : cache.get(plan, stored_by));
    return Entry{{report.served, kernel->plan().schedule, report.record, report.from}, stored_by, kernel};
  }

  LaunchReport default_report(const KernelSpec& spec) {
    Lookup nothing;
    nothing.schedule = default_schedule(spec, device.info().target);
    return make_report(nothing);
  }

  Result<Lookup> look_up(const KernelSpec& canonical, std::int64_t rows) {
    if (const RecordIndex* index = warmed.load(std::memory_order_acquire)) return index->look_up(canonical, rows, device.info());
    if (database != nullptr) return database->look_up(canonical, rows, device.info());
    Lookup nothing;
    nothing.schedule = default_schedule(canonical, device.info().target);
    return nothing;
  }

  // The best schedule known; the default where its kernel cannot be had.
  Result<Entry> choose(const KernelSpec& spec, std::int64_t rows, Reach reach) {
    HEADNORM_TRY(const KernelSpec canonical, make_spec(spec));
    HEADNORM_TRY(const Lookup lookup, look_up(canonical, rows));
    return serve(canonical, lookup, reach);
  }

  Result<Entry> serve(const KernelSpec& canonical, const Lookup& lookup, Reach reach) {
    StoredBy stored_by;
    if (lookup.record) stored_by = {lookup.record->kernel.backend, lookup.record->device.target};
    Result<Entry> best = load(canonical, make_report(lookup), stored_by, reach);
    if (best.ok() || lookup.served == Served::fallback) return best;
    Result<Entry> fallback = load(canonical, default_report(canonical), stored_by, reach);
    if (!fallback.ok()) return best;
    if (database != nullptr)
      database->warn("winner",
                     fmt::format("record {} is passed over for the default schedule: {}", lookup.record->id, best.error().message));
    return fallback;
  }

  // For no rows: nothing is launched, and only the report is kept.
  Result<LaunchReport> report_empty(const KernelSpec& spec, const LaunchArguments& arguments) {
    HEADNORM_TRY(const KernelSpec canonical, make_spec(spec));
    HEADNORM_CHECK(check_arguments(canonical, arguments));
    const Key key{spec, 0, Alignment::planned};
    if (const Entry* found = entries.find(key)) return found->report;
    const Entry made{default_report(canonical), {}, nullptr};
    entries.insert(key, made, kMaxEntries);
    return made.report;
  }

  // The kernel that serves these tensors; rows > 0.
  Result<EntryPointer> get_for(const KernelSpec& spec, const LaunchArguments& arguments, Reach reach) {
    HEADNORM_TRY(EntryPointer entry, get({spec, arguments.rows, Alignment::planned}, arguments.stream, reach));
    if (entry->kernel->takes_alignment_of(arguments)) return entry;
    return get({spec, arguments.rows, Alignment::any}, arguments.stream, reach);
  }

  Result<Entry> unaligned_twin(const Key& key, void* stream, Reach reach) {
    HEADNORM_TRY(const EntryPointer planned, get({key.spec, key.rows, Alignment::planned}, stream, reach));
    Result<Entry> twin = load_twin(*planned, reach);
    if (twin.ok()) return twin;
    return Error{twin.error().kind,
                 fmt::format("the tensors lack the alignment that schedule '{}' asks for, and {}",
                             to_text(planned->report.schedule), twin.error().message),
                 "align addresses and row strides (Device::allocate aligns), or " + twin.error().remedy};
  }

  Result<Entry> load_twin(const Entry& planned, Reach reach) {
    LaunchReport report = planned.report;
    report.schedule = unaligned_schedule(planned.kernel->plan());
    return load(planned.kernel->plan().spec, report, planned.stored_by, reach);
  }

  // Loads the record's kernel, its twin, and the default of its spec: the last two are extras, which may be missing.
  Result<void> load_record(const Record& record, const Lookup& lookup, std::set<const LoadedKernel*>& kernels) {
    HEADNORM_TRY(const Entry planned, serve(record.spec, lookup, Reach::anywhere));
    kernels.insert(planned.kernel.get());
    if (const Result<Entry> twin = load_twin(planned, Reach::anywhere); twin.ok()) kernels.insert(twin->kernel.get());
    if (const auto plain = load(record.spec, default_report(record.spec), planned.stored_by, Reach::anywhere); plain.ok())
      kernels.insert(plain->kernel.get());
    if (planned.report.served != Served::fallback) return {};
    return environment_error(fmt::format("the kernel of record {} cannot be had: the default schedule serves", record.id),
                             "tune it again, or allow compiling");
  }

  // Once its kernels are loaded and the index is published: launches of its shape find it in the map.
  void enter_record(const Record& record, WarmReport& report) {
    const Result<EntryPointer> planned = get({record.spec, record.rows, Alignment::planned}, nullptr, Reach::memory);
    if (!planned.ok()) return report.missing.push_back({record.id, planned.error()});
    (void)get({record.spec, record.rows, Alignment::any}, nullptr, Reach::memory);  // the twin may be missing
    if ((*planned)->report.record != record.id) report.shadowed.push_back(record.id);
  }

  // Of all tables warmed so far and these records; by whoever holds warm_mutex.
  std::unique_ptr<const RecordIndex> index_with(const std::vector<Record>& records) const {
    auto index = std::make_unique<RecordIndex>();
    for (const std::vector<Record>* table : {&warmed_records, &records}) {
      for (const Record& record : *table) index->add(std::make_shared<const Record>(record));
    }
    return index;
  }

  std::unique_ptr<const RecordIndex> preview(const std::vector<Record>& records) {
    const std::lock_guard lock(warm_mutex);
    return index_with(records);
  }

  // For launches to use from now on. Another table may have been warmed since the preview.
  void publish(const std::vector<Record>& records) {
    const std::lock_guard lock(warm_mutex);
    indices.push_back(index_with(records));
    warmed_records.insert(warmed_records.end(), records.begin(), records.end());
    warmed.store(indices.back().get(), std::memory_order_release);
  }

  // `records` of a table whose digest is right. Launches meanwhile go on as before, until everything is loaded.
  Result<void> warm(const std::vector<Record>& records, WarmReport& report) {
    const std::unique_ptr<const RecordIndex> index = preview(records);
    std::set<const LoadedKernel*> kernels;
    std::vector<const Record*> loaded;
    for (const Record& record : records) {
      HEADNORM_TRY(const Lookup lookup, index->look_up(record.spec, record.rows, device.info()));
      if (!lookup.record || lookup.record->id != record.id || lookup.served == Served::other_device) continue;
      ++report.records;
      if (const Result<void> had = load_record(record, lookup, kernels); had.ok())
        loaded.push_back(&record);
      else
        report.missing.push_back({record.id, had.error()});
    }
    publish(records);
    for (const Record* record : loaded) enter_record(*record, report);
    report.kernels = static_cast<int>(kernels.size());
    return {};
  }
};

Runtime::Runtime(Device& device, Database* database, CodegenBackend* backend, JitMode mode)
    : state_(std::make_unique<State>(device, database, backend, mode)) {}

Runtime::~Runtime() = default;

Result<LaunchReport> Runtime::look_up(const KernelSpec& spec, std::int64_t rows) {
  if (rows < 0) return user_error(fmt::format("rows is {}: must be 0 or more", rows), "give the number of rows");
  HEADNORM_TRY(const KernelSpec canonical, make_spec(spec));
  HEADNORM_TRY(const Lookup lookup, state_->look_up(canonical, rows));
  return state_->make_report(lookup);
}

Result<LaunchReport> Runtime::prepare(const KernelSpec& spec, std::int64_t rows) {
  if (rows < 1) return user_error(fmt::format("rows is {}: must be 1 or more", rows), "give the row count that will be launched");
  HEADNORM_TRY(const EntryPointer entry, state_->get({spec, rows, Alignment::planned}, nullptr, Reach::anywhere));
  return entry->report;
}

Result<LaunchReport> Runtime::prepare(const KernelSpec& spec, const LaunchArguments& arguments) {
  if (arguments.rows <= 0) return prepare(spec, arguments.rows);
  HEADNORM_TRY(const EntryPointer entry, state_->get_for(spec, arguments, Reach::anywhere));
  return entry->report;
}

Result<WarmReport> Runtime::warm(Database& table, std::string_view expected_digest) {
  HEADNORM_TRY(const std::vector<Record> records, table.list(nullptr));
  WarmReport report;
  report.digest = table_digest(records);
  if (!expected_digest.empty() && report.digest != expected_digest)
    return user_error(
        fmt::format("the table '{}' has digest {}; expected is {}", table.directory().string(), report.digest, expected_digest),
        "give every process a copy of the same records (`headnorm db digest` prints the digest)");
  HEADNORM_CHECK(state_->warm(records, report));
  return report;
}

Result<LaunchReport> Runtime::run(const KernelSpec& spec, const LaunchArguments& arguments) {
  if (arguments.rows <= 0) return state_->report_empty(spec, arguments);
  const Reach reach = state_->is_sealed() ? Reach::memory : Reach::anywhere;
  HEADNORM_TRY(const EntryPointer entry, state_->get_for(spec, arguments, reach));
  HEADNORM_CHECK(state_->device.launch(*entry->kernel, arguments));
  return entry->report;
}

}  // namespace headnorm
