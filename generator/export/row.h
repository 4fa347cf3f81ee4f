// Row: one record of a database on its way into the tables of other projects, and what all formats make of it alike: names, order,
// the values of a schedule's fields, times in milliseconds. Needs no compiler: nothing here sees LLVM.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/database/record.h"
#include "runtime/database/trial_log.h"

namespace headnorm::exports {

using Json = nlohmann::ordered_json;

struct Row {
  Record record;
  std::optional<TrialLog> trials;  // none: only the winner is known
};

// Sorts by kernel, device, rows, policy, and keeps of the records that differ in the policy alone the cold one. Every format is
// given rows in this form, so that the same records make the same bytes.
std::vector<Row> canonical_rows(std::vector<Row> rows);

// Rows with one key together, in the order of the first of each.
std::vector<std::vector<Row>> grouped(const std::vector<Row>& rows, std::string (*key)(const Record&));

// ---- schedules as tunable parameters -------------------------------------------------------------------------------------------

// Of a field that is a number in every schedule a number, else a word. A field that a schedule's canonical text leaves out, because
// it has no effect there or its default, is 0 or "none".
using Value = std::variant<std::int64_t, std::string>;

// The fields of some schedules, read out of their canonical texts: a field that schedules gain is one here, too.
class Fields {
 public:
  explicit Fields(const std::vector<std::string>& schedules);

  struct Field {
    std::string name;
    bool is_number = true;
  };
  const std::vector<Field>& list() const { return list_; }  // in the order of the canonical texts
  std::vector<Value> values(const std::string& schedule) const;

 private:
  std::vector<Field> list_;
};

Fields fields_of(const std::vector<Row>& rows);
Fields fields_of(const Row& row);  // of its trials, too
Json value_json(const Value& value);
std::string value_text(const Value& value);

// The schedule with these values; fields that are 0 or "none" take their defaults. Errors as parse_schedule.
Result<Schedule> schedule_of(const std::vector<std::string>& names, const std::vector<std::string>& values, TargetKind kind);

// ---- names ---------------------------------------------------------------------------------------------------------------------

// Of the operation, whatever its shape: "mh_rmsnorm", "mh_rmsnorm_residual_seednorm"; with the beginning of a digest where options
// differ from the default, so that two operations never share a name.
std::string operation_name(const KernelSpec& spec);
// "mh_rmsnorm_bf16_H16_D256": H heads of D elements.
std::string kernel_name(const KernelSpec& spec);
// Rows, heads and head size: "4096x16x256".
std::string problem_text(const Record& record);
std::vector<std::int64_t> problem_size(const Record& record);

// For file names and identifiers: characters but letters, digits and those of `kept` become '_'; at most 100 bytes, and never
// empty.
std::string sanitised(const std::string& text, const std::string& kept);
std::string device_file_name(const DeviceInfo& device);

// The dtype as frameworks write it: "bfloat16".
const char* framework_dtype(Dtype dtype);

// "2026-08-22T02:00:00Z" as "2026-08-22 02:00:00"; a text of another form as it is.
std::string spaced_time(const std::string& iso);

// ---- times ---------------------------------------------------------------------------------------------------------------------

inline double milliseconds(double us) { return us / 1e3; }

// The trials of the row; of a row without any its winner alone, with the record's median.
std::vector<Trial> trials_of(const Row& row);
// Whether the trials are all candidates of the search.
bool is_complete(const Row& row);

// ---- files ---------------------------------------------------------------------------------------------------------------------

struct File {
  std::string name, bytes;
};

// Exactly what the rows say, for readers of ours beside a file whose own reader knows no further keys: "<name>.meta.json" with the
// records (sealed, without their kernels) and, for each, whether the candidates are complete.
File sidecar(const std::string& name, const std::string& format, const std::string& tool, const std::vector<Row>& rows);

// JSON text with bytes that are not UTF-8 replaced; `indent` -1: in one line.
std::string dump(const Json& json, int indent = -1);

}  // namespace headnorm::exports
