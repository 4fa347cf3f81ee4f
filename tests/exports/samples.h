// Records with their trials, as a search leaves them, for tests of exports and merges: some devices, kernels and row counts, one
// device with a name that every format must escape.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "generator/export/row.h"
#include "runtime/database/database.h"

namespace headnorm::test {

inline constexpr const char* kHostileName = "Evil \"GPU\" \\ ?\?/ a|b, c*/ 'd' \xC3\x9F";

inline DeviceInfo gpu_device(const std::string& name = "NVIDIA H200", int units = 132, const std::string& kind = "cuda") {
  DeviceInfo device;
  device.kind = kind;
  device.id = kind == "cuda" ? "cuda:0" : kind;
  device.name = name;
  device.target = make_gpu_target(90);
  device.units = units;
  device.memory_bytes = std::int64_t{141} << 30;
  device.driver = "12.8";
  return device;
}

inline DeviceInfo host_device() {
  DeviceInfo device;
  device.kind = device.id = "host";
  device.name = "AMD EPYC 9654 96-Core Processor";
  device.target = make_host_target(HostIsa::x86_64_v4);
  device.units = 2;
  device.memory_bytes = std::int64_t{1} << 36;
  return device;
}

inline KernelSpec spec_of(const std::string& text) { return *make_spec(*parse_spec(text)); }

// Different legal schedules, the default first.
inline std::vector<std::string> some_schedules(const KernelSpec& spec, const Target& target) {
  std::vector<std::string> texts = {to_text(make_plan(spec, default_schedule(spec, target), target)->schedule)};
  const std::vector<std::string> asked =
      target.kind == TargetKind::gpu
          ? std::vector<std::string>{"lanes=8,vector=8", "lanes=16,vector=4", "lanes=16,vector=8,residency=shared",
                                     "lanes=32,vector=4,block=256", "lanes=32,vector=8,grid=persistent"}
          : std::vector<std::string>{"form=split,block=4096", "form=split,store=plain", "form=rot", "form=pipe",
                                     "form=split,prefetch=t1,prefetch_bytes=16384"};
  for (const std::string& text : asked) {
    const Result<Plan> plan = make_plan(spec, *parse_schedule(text, target.kind), target);
    if (plan.ok() && std::find(texts.begin(), texts.end(), to_text(plan->schedule)) == texts.end())
      texts.push_back(to_text(plan->schedule));
  }
  return texts;
}

// A search that tried some schedules: one was wrong, one did not compile, and the best of the others won with `median_us`.
inline exports::Row searched_row(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device, double median_us,
                                 Evidence evidence = Evidence::measured, CachePolicy policy = CachePolicy::cold) {
  exports::Row row;
  Record& record = row.record;
  record.spec = spec;
  record.rows = rows;
  record.device = device;
  record.id = record_id(spec, rows, device, policy);
  record.policy = policy;
  record.evidence = evidence;
  record.time = {median_us, median_us * 0.99, median_us * 1.07, 25};
  record.bytes = minimum_traffic(spec).total_bytes(rows);
  record.search = "exhaustive";
  record.seed = 0xfedcba9876543210u;
  record.created = "2026-01-02T03:04:05Z";
  record.tool = "headnorm 0.1.0";
  const std::vector<std::string> schedules = some_schedules(spec, device.target);
  TrialLog log{record.id, "", {}};
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    Trial trial;
    trial.schedule = schedules[i];
    trial.compile_ms = 30.5 + static_cast<double>(i);
    if (i == 1) trial.failure = "incorrect", trial.message = "row 0: 1 is not 2";
    if (i == 2) trial.failure = "compile", trial.message = "too many registers";
    if (trial.failure.empty()) {
      trial.time_us = median_us * (i == 3 ? 1.0 : 1.25 + 0.25 * static_cast<double>(i));
      trial.samples_us = {trial.time_us * 0.9, trial.time_us, trial.time_us * 1.2};
      trial.verify_ms = 2;
      trial.measure_ms = 4.25;
    }
    log.trials.push_back(trial);
  }
  record.schedule = *parse_schedule(schedules.at(3), device.target.kind);
  record.candidates = {static_cast<int>(schedules.size()),
                       static_cast<int>(schedules.size()) - 2,
                       static_cast<int>(schedules.size()) - 2,
                       {{"compile", 1}, {"incorrect", 1}}};
  std::sort(log.trials.begin(), log.trials.end(), [](const Trial& a, const Trial& b) { return a.schedule < b.schedule; });
  log.record_digest = record_digest(record);
  row.trials = std::move(log);
  return row;
}

inline constexpr const char* kPlainSpec = "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06";
inline constexpr const char* kResidualSpec =
    "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,residual=add:bf16";
inline constexpr const char* kEpsSpec = "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-05";

inline std::vector<exports::Row> sample_rows() {
  const KernelSpec plain = spec_of(kPlainSpec), residual = spec_of(kResidualSpec);
  std::vector<exports::Row> rows = {
      searched_row(plain, 4096, gpu_device(), 23.1),
      searched_row(plain, 1, gpu_device(), 2.4),
      searched_row(residual, 4096, gpu_device(), 41.75),
      searched_row(plain, 4096, gpu_device(kHostileName, 7), 99.5),
      searched_row(plain, 64, gpu_device("NVIDIA A100 80GB", 108, "emulator"), 5.5, Evidence::emulated),
      searched_row(plain, 128, gpu_device("NVIDIA B200", 148), 6.5, Evidence::predicted),
      searched_row(plain, 4096, host_device(), 812.5),
  };
  rows[5].trials.reset();
  return rows;
}

inline std::vector<MergeEntry> entries_of(const std::vector<exports::Row>& rows) {
  std::vector<MergeEntry> entries;
  for (const exports::Row& row : rows) entries.push_back({row.record, row.trials});
  return entries;
}

}  // namespace headnorm::test
