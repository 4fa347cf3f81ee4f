// Runtime: look up, load and launch the best kernel known for a spec. The door for programs that use headnorm as a library.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/codegen_backend.h"
#include "runtime/database/database.h"
#include "runtime/device.h"
#include "runtime/jit_mode.h"

namespace headnorm {

// The id of a record without memory of its own, so that a report is made without allocating. Empty for none.
class RecordId {
 public:
  RecordId() = default;
  explicit RecordId(std::string_view id) { id.copy(digits_.data(), kRecordIdDigits); }
  std::string_view text() const { return digits_.data(); }
  bool empty() const { return digits_[0] == 0; }
  friend bool operator==(const RecordId& a, std::string_view b) { return a.text() == b; }

 private:
  std::array<char, kRecordIdDigits + 1> digits_{};
};

struct LaunchReport {
  Served served = Served::fallback;
  Schedule schedule;
  RecordId record;
  std::string_view from;  // where the schedule comes from, in words (describe); lives as long as the runtime
};

// What came of warm().
struct WarmReport {
  struct Missing {
    std::string record;  // id
    Error error;         // why its kernel cannot be had
  };
  std::string digest;            // of the table (table_digest.h)
  int records = 0;               // of the table that are this device's
  int kernels = 0;               // loaded for them, with those for misaligned tensors and the defaults
  std::vector<Missing> missing;  // records whose kernel is neither stored nor could be compiled
  // Ids of records that do not serve although their kernels are loaded: their shape was launched before, and keeps what it had.
  std::vector<std::string> shadowed;
};

// Thread-safe. Keeps what it looked up: the second launch of a shape touches neither files nor the compiler, allocates nothing and
// takes no lock (a device may: a host device's pool of several threads hands out work).
class Runtime {
 public:
  // `database` and `backend` may be null; all must outlive the runtime.
  Runtime(Device& device, Database* database, CodegenBackend* backend, JitMode mode = JitMode::allowed);
  ~Runtime();

  // Which schedule would serve, and how. Loads and compiles nothing.
  Result<LaunchReport> look_up(const KernelSpec& spec, std::int64_t rows);

  // Chooses and loads the kernel for this spec and row count, of tensors aligned as its plan asks for. Afterwards run() only
  // launches: it compiles, loads and reads nothing, so that it can be captured into a graph.
  Result<LaunchReport> prepare(const KernelSpec& spec, std::int64_t rows);

  // The same for exactly these tensors, whatever their alignment.
  Result<LaunchReport> prepare(const KernelSpec& spec, const LaunchArguments& arguments);

  // Loads every kernel of the table's records for this device, those for misaligned tensors, and the default of each spec, as far
  // as they are stored or may be compiled. Then, and at once, look-ups are answered by the records of warmed tables alone, as they
  // are now: whatever is published later changes nothing. With JitMode::forbidden run() also reads no file any more: a kernel that
  // was not loaded is passed over for the spec's default, or is an error, at once. Launches meanwhile are served as before. Call it
  // before the first launch: shapes that were looked up earlier keep their kernels, and WarmReport::shadowed names their records.
  // `table` is not used afterwards. Errors: the table cannot be read, or (user) its digest is not `expected_digest`, if that is
  // given.
  Result<WarmReport> warm(Database& table, std::string_view expected_digest = {});

  // y (and residual_out) from x; misaligned tensors are served by the plan's unaligned schedule. A stored kernel that does not load
  // is passed over for the default schedule, once, with the reason in the database's warnings. Error (user), among others: the
  // stream is being captured and the kernel is not prepared.
  Result<LaunchReport> run(const KernelSpec& spec, const LaunchArguments& arguments);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headnorm
