// Database: a directory of records and compiled kernels, safe for several processes at once.
//
//   DIR/records/<id>.json       one record a file; the truth
//   DIR/index.json              derived from the records, for other programs; never read here, can be deleted
//   DIR/kernels/<sha256>.<ext>  compiled code of this user, by the hash of its bytes
//   DIR/kernels/<key>.json      the kernel of an artifact key, by that hash
//   DIR/trials/<id>.json        what became of every candidate of a record's search; never served
//   DIR/pending.json            a merge on its way into place; whoever opens the directory to write finishes it
//   DIR/journal/<id>.jsonl      candidates of a search that was not finished (the tuner's)
//
// Files are published by writing a temporary beside them, syncing and renaming, so that readers see a whole file or none. A damaged
// file is a miss with a reason (see warnings), never an error of a look-up and never a wrong kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/database/merge.h"
#include "runtime/database/record.h"
#include "runtime/database/trial_log.h"

namespace headnorm {

// How a look-up was answered, in order of preference.
enum class Served : std::uint8_t {
  exact,           // a measured record of this spec, rows and device
  nearest_rows,    // another row count of this spec (measured, within a factor of 4)
  predicted,       // a predicted record of this spec and rows
  far_rows,        // another row count, beyond a factor of 4
  predicted_rows,  // another row count of this spec, predicted
  other_shape,     // a record of another width with the same options; its schedule is legal for this spec
  other_device,    // a record of another device of the same instruction set
  fallback,        // default_schedule; text "default"
};
// "exact", "nearest_rows", "predicted", "nearest_rows", "nearest_rows", "other_shape", "other_device", "default".
const char* to_text(Served served);

// Whose record it is.
enum class Origin : std::uint8_t {
  user,     // of the directory
  shipped,  // of the tables that come with headnorm (runtime/database/shipped_tables.h)
};
const char* to_text(Origin origin);

struct Lookup {
  Served served = Served::fallback;
  Schedule schedule;             // legal for the spec and the device's target
  std::optional<Record> record;  // none for fallback
  Origin origin = Origin::user;  // of the record
};

// Where the schedule comes from, in words: "measured on NVIDIA H200 at 4096 rows", "predicted by a cost model for NVIDIA H200 at 64
// rows, shipped with headnorm", "the default: nothing is known of this shape".
std::string describe(const Lookup& lookup);

// What `db check` found wrong or unfinished, or what a look-up passed over.
struct Damage {
  std::string file;  // relative to the directory
  std::string reason;
};

// How much compiled code is kept.
struct KernelLimit {
  std::int64_t bytes = std::int64_t{1} << 30;  // of all files in kernels/
  std::int64_t grace_seconds = 3600;           // a file younger than this stays, whatever the size: its writer may need it
};

struct DatabaseOptions {
  bool read_only = false;         // never creates or writes anything
  KernelLimit kernel_limit = {};  // held to while kernels are stored: those used longest ago go
  // Called at most once for each kind of trouble, from any thread that uses the database; must not call it. May be empty.
  std::function<void(const std::string&)> warn = {};
};

// Thread-safe.
class Database {
 public:
  // Creates the directory (0700) unless read_only. A directory that is there but cannot be added to is used read only, with a
  // warning. Errors: environment (cannot be created or read; kernels/ belongs to somebody else, is a symbolic link or is writable
  // for others; the path is a file), each with the reason and remedy; a caller that can do without goes on without a database.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& directory, DatabaseOptions options = {});
  virtual ~Database() = default;

  virtual const std::filesystem::path& directory() const = 0;
  virtual Result<std::optional<Record>> find(const std::string& id) = 0;                // none if absent or damaged
  virtual Result<std::vector<Record>> list(std::vector<Damage>* damage = nullptr) = 0;  // sorted by spec text, rows, device
  // A record of another device (kind, name, target, units) is served as other_device and never as anything else. Only the first
  // call reads all records; a later one costs a system call unless a record was published or removed since. Errors (user): an
  // illegal spec, negative rows.
  virtual Result<Lookup> look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) = 0;

  // Replaces a record of the same id, unless that one has better evidence. Errors here and of store_kernel: environment (not
  // written; also a warning, unless the database is read only), internal (nothing that could be read back).
  virtual Result<void> publish(const Record& record) = 0;
  // `log`: of the assembler that made a cubin; kept in kernels/<key>.json for people to read.
  virtual Result<StoredKernel> store_kernel(const Artifact& artifact, const std::string& log = {}) = 0;
  // The artifact if its files are there and whole, and this user's own kernels/<key>.json names the same one; none otherwise.
  virtual Result<std::optional<Artifact>> load_kernel(const StoredKernel& kernel) = 0;
  // By Artifact::key, for kernels compiled on a miss: kernels/<key>.json names the hash.
  virtual Result<std::optional<Artifact>> find_kernel(const std::string& artifact_key) = 0;

  // The trials of a record, stored before it is published; found only while they belong to the record that is there. A kind of
  // database that keeps none does nothing.
  virtual Result<void> store_trials(const TrialLog& /*log*/) { return {}; }
  virtual Result<std::optional<TrialLog>> find_trials(const Record& /*record*/) { return std::optional<TrialLog>(); }

  // Takes every record that is_better than the one of its key here, or that has no match: all of them or, with an error, none. A
  // process that is stopped in between leaves either nothing or a merge that the next one to open the database finishes.
  virtual Result<MergeCounts> merge(const std::vector<MergeEntry>& entries);

  // Hands a message to DatabaseOptions::warn, unless one of this kind went there before.
  virtual void warn(const std::string& kind, const std::string& message) = 0;

  // Reads every file and says what is damaged.
  virtual Result<std::vector<Damage>> check() = 0;
  // A merge that is written down and has not ended, with what ends it: no damage. Not asked of kinds that cannot be merged into.
  virtual std::optional<Damage> unfinished_merge() const { return std::nullopt; }
};

// $HEADNORM_DB is read by the command line only; this is $XDG_CACHE_HOME/headnorm or $HOME/.cache/headnorm from the given values
// (null: unset). Error (environment) if neither is set.
Result<std::filesystem::path> default_database_directory(const char* xdg_cache_home, const char* home);

}  // namespace headnorm
