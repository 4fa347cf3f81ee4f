// Record: what was found out about one spec at one row count on one device: the schedule that won and how it was found.
//
// A record carries no code. Its kernel is named by hash (Record::kernel) and lives in DB/kernels, which is never merged or
// exported.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/plan.h"
#include "core/result.h"
#include "runtime/device.h"

namespace headnorm {

// In order of preference.
enum class Evidence : std::uint8_t { measured, predicted, emulated };
const char* to_text(Evidence evidence);
Result<Evidence> parse_evidence(std::string_view text);

// What the caches held when a launch was timed.
enum class CachePolicy : std::uint8_t {
  cold,  // operands rotate through more memory than the caches hold
  warm,  // the same operands again and again
};
const char* to_text(CachePolicy policy);
Result<CachePolicy> parse_cache_policy(std::string_view text);

struct TimeStatistics {
  double median_us = 0, p20_us = 0, p80_us = 0;
  int samples = 0;
};

struct CandidateCounts {
  int legal = 0;     // different plans that the search came to know of, its refinements among them
  int verified = 0;  // that were compared with the reference and found right
  int measured = 0;
  std::map<std::string, int> rejected;  // by kind: "illegal", "compile", "incorrect", "launch", ...
};

// The compiled winner, for a process without a compiler. Optional: empty if the kernel was not kept.
struct StoredKernel {
  std::string sha256;  // of the file's bytes; the file is kernels/<sha256>.<extension>
  ArtifactKind kind = ArtifactKind::object;
  std::string entry, key, backend;  // as in Artifact
};

struct Record {
  std::string id;  // record_id of spec, rows, device, policy
  KernelSpec spec;
  std::int64_t rows = 0;
  DeviceInfo device;
  Schedule schedule;
  Evidence evidence = Evidence::measured;
  CachePolicy policy = CachePolicy::cold;
  TimeStatistics time;
  std::int64_t bytes = 0;  // minimum_traffic of the launch
  double copy_ratio = 0;   // bandwidth over that of a plain copy of the same bytes in the same run; 0 unknown
  CandidateCounts candidates;
  std::string search;  // "exhaustive", "random"
  std::uint64_t seed = 0;
  std::string created;     // UTC, ISO 8601
  std::string tool;        // "headnorm 0.1.0"
  std::string provenance;  // in words, of what was not measured here and now: the model, how registers were known; may be empty
  StoredKernel kernel;

  double gb_per_s() const { return time.median_us > 0 ? static_cast<double>(bytes) / time.median_us / 1e3 : 0; }
};

inline constexpr std::size_t kRecordIdDigits = 32;

// 32 hexadecimal digits from the canonical texts of spec, rows, device (kind, name, target, units) and policy.
std::string record_id(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device, CachePolicy policy);

// JSON text of a record (one object, sorted keys, a final newline), and back. Reading refuses, with the reason: another format
// version, a missing, unknown or ill-typed field, values that make_spec or make_plan refuse, an id that does not fit the key, a
// kernel key that is not artifact_key of the record's plan and the kernel's backend, and any text that was changed after writing.
std::string to_json(const Record& record);
Result<Record> record_from_json(std::string_view text);

}  // namespace headnorm
