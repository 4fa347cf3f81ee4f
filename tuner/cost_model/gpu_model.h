// GPU model: the figures of one GPU that the cost model reckons with, each with where it comes from. A plain value.
//
// The models of known GPUs are compiled in from tuner/cost_model/devices/*.json, the one place of such figures in the project.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/target.h"
#include "runtime/device.h"

namespace headnorm {

enum class Figure : std::uint8_t {
  multiprocessors,
  clock_ghz,
  gb_per_s,         // peak of the memory
  f32_tflop_per_s,  // peak
  memory_bytes,
  l2_bytes,
  l2_gb_per_s,
  memory_efficiency,  // of the peak, that a large copy reaches
  memory_latency_ns,  // of a load that misses the caches while others are under way
  l2_latency_ns,
  launch_us,  // what a launch takes apart from its work
  threads_per_multiprocessor,
  blocks_per_multiprocessor,
  registers_per_multiprocessor,
  shared_bytes_per_multiprocessor,
  shared_bytes_reserved_per_block,
  issue_per_cycle,  // warp instructions of one multiprocessor, at best
  shuffle_cycles,   // until the result of a shuffle is added
  barrier_cycles,
  shared_cycles,  // latency
};
inline constexpr int kFigureCount = 20;
const char* to_text(Figure figure);  // "memory_latency_ns"

enum class Confidence : std::uint8_t {
  read,        // text "read in a published source"
  memory,      // text "from memory": of a publication that was not read again
  assumed,     // text "assumed": an estimate with its reason
  calibrated,  // text "calibrated": fitted to measured times
};
const char* to_text(Confidence confidence);

struct FigureValue {
  double value = 0;
  Confidence confidence = Confidence::assumed;
  std::string source;  // or the reason, in words
};

struct GpuModel {
  std::string slug;   // "h200"
  std::string title;  // "H200 SXM"
  std::string name;   // as the driver gives it, "NVIDIA H200": what records of the device are known by
  Target target;      // the best that a current driver takes
  std::array<FigureValue, kFigureCount> figures;

  double operator[](Figure figure) const { return figures[static_cast<std::size_t>(figure)].value; }
  FigureValue& at(Figure figure) { return figures[static_cast<std::size_t>(figure)]; }
  const FigureValue& at(Figure figure) const { return figures[static_cast<std::size_t>(figure)]; }
};

// Those compiled in, by slug.
const std::vector<GpuModel>& gpu_models();
// Null: none of that name.
const GpuModel* find_gpu_model(std::string_view slug);

// JSON text of a model, and back. Reading refuses, with the reason, what is not one: a figure that is missing, not known, not a
// positive number or without a source.
std::string to_json(const GpuModel& model);
Result<GpuModel> gpu_model_from_json(std::string_view text);

// The device that the model stands for, with `id` "model:h200": its records have the key of those that the device itself has.
DeviceInfo device_info(const GpuModel& model);

}  // namespace headnorm
