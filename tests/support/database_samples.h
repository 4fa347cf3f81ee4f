// Records, devices and artifacts for tests of the database.
#pragma once

#include <fstream>
#include <iterator>

#include "core/artifact.h"
#include "core/digest.h"
#include "runtime/database/database.h"

namespace headnorm::test {

inline DeviceInfo sample_device() {
  DeviceInfo device;
  device.kind = "host";
  device.id = "host";
  device.name = "Sample CPU \"X\" \\ Größe";
  device.target = make_host_target(HostIsa::x86_64_v4);
  device.units = 2;
  device.memory_bytes = std::int64_t{1} << 40;
  device.cache_bytes = 33554432;
  return device;
}

inline KernelSpec sample_spec(std::int64_t width = 4096, std::int64_t head_size = 256) {
  KernelSpec spec;
  spec.width = width;
  spec.head_size = head_size;
  return *make_spec(spec);
}

inline Plan sample_plan(const KernelSpec& spec, const DeviceInfo& device) {
  return *make_plan(spec, default_schedule(spec, device.target), device.target);
}

inline Artifact sample_artifact(const Plan& plan, const std::string& backend = "sample-1", const std::string& bytes = "code") {
  Artifact artifact;
  artifact.kind = plan.target.kind == TargetKind::host ? ArtifactKind::object : ArtifactKind::ptx;
  artifact.entry = entry_name(plan);
  artifact.bytes = bytes + " of " + artifact.entry;
  artifact.key = artifact_key(plan, backend);
  artifact.backend = backend;
  return artifact;
}

// What store_kernel returns for the artifact.
inline StoredKernel sample_kernel(const Artifact& artifact) {
  return {sha256_hex(artifact.bytes), artifact.kind, artifact.entry, artifact.key, artifact.backend};
}

inline Record sample_record(const KernelSpec& spec = sample_spec(), std::int64_t rows = 1024,
                            const DeviceInfo& device = sample_device(), Evidence evidence = Evidence::measured,
                            CachePolicy policy = CachePolicy::cold) {
  const Plan plan = sample_plan(spec, device);
  Record record;
  record.id = record_id(spec, rows, device, policy);
  record.spec = spec;
  record.rows = rows;
  record.device = device;
  record.schedule = plan.schedule;
  record.evidence = evidence;
  record.policy = policy;
  record.time = {12.5, 12.25, 13.1, 9};
  record.bytes = minimum_traffic(spec).total_bytes(rows);
  record.copy_ratio = 0.9375;
  record.candidates = {120, 117, 100, {{"incorrect", 1}, {"compile", 2}}};
  record.search = "exhaustive";
  record.seed = 0xfedcba9876543210u;
  record.created = "2026-01-02T03:04:05Z";
  record.tool = "headnorm 0.1.0";
  record.kernel = sample_kernel(sample_artifact(plan));
  return record;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace headnorm::test
