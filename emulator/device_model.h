// The devices that the emulator stands in for: facts of the hardware that a launch is checked against.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "emulator/fault.h"

namespace headnorm::emulator {

enum class Model : std::uint8_t { a100, rtx3090, l40s, h200, b200, rtx5090 };

struct DeviceModel {
  const char* slug;  // "h200"
  const char* name;  // says that it is emulated
  int sm;            // 90
  int multiprocessors;
  std::uint64_t memory_bytes;
  std::uint64_t l2_bytes;
  int clock_khz, memory_clock_khz, memory_bus_bits;
  std::uint32_t shared_per_block, shared_per_block_optin, shared_per_multiprocessor, shared_reserved;
  std::uint32_t threads_per_block, threads_per_multiprocessor, blocks_per_multiprocessor;
  std::uint32_t registers_per_block;
  Dim3 max_grid, max_block;
  std::uint32_t max_cluster;        // blocks; 1: no clusters
  std::uint32_t max_large_cluster;  // of kernels that say that they may have more than is portable
  std::uint32_t parameter_bytes;
  int ptx_version;  // newest that its driver takes: 90 is 9.0
};

const DeviceModel& device_model(Model model);
std::optional<Model> parse_model(std::string_view slug);
std::span<const Model> all_models();

}  // namespace headnorm::emulator
