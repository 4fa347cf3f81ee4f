// Device: something that loads compiled kernels and launches them. The host CPU is one (runtime/host); a CUDA device is another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/artifact.h"
#include "core/launch_abi.h"

namespace headnorm {

class DeviceCompiler;
class Executor;

// Facts of one device. Those that decide whether a measurement carries over are part of a record's key (see Record).
struct DeviceInfo {
  std::string kind;  // "host", "cuda", "emulator"
  std::string id;    // as given to --device: "host", "cuda:0"
  std::string name;  // of the processor, e.g. "AMD EPYC 9654" or "NVIDIA H200"
  Target target;     // the best target it runs
  int units = 0;     // threads that a launch uses (host), multiprocessors (GPU)
  std::int64_t memory_bytes = 0;
  std::int64_t cache_bytes = 0;  // last level cache as reported; 0 unknown
  std::string driver;            // driver version; empty for the host
};

// Memory of a device; frees itself.
class Buffer {
 public:
  Buffer() = default;
  using Release = std::function<void(void* address, std::size_t bytes)>;  // must not throw
  Buffer(void* address, std::size_t bytes, Release release) : address_(address), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (address_ != nullptr) release_(address_, bytes_);
  }
  void* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  Release release_;
};

// What a launch works on. Places of operands that the spec does not have are ignored. Addresses are the device's; strides are in
// elements, at least the width (or any value when rows <= 1). rows == 0 does nothing and may have null addresses.
struct LaunchArguments {
  std::array<void*, kOperandCount> addresses{};
  std::array<std::int64_t, kOperandCount> strides{};  // of row operands
  std::int64_t rows = 0;
  void* stream = nullptr;  // GPU: the CUstream to queue on; null: one of the device's own. The host takes null only

  void*& address(Operand operand) { return addresses[static_cast<std::size_t>(operand)]; }
  void* address(Operand operand) const { return addresses[static_cast<std::size_t>(operand)]; }
  std::int64_t& stride(Operand operand) { return strides[static_cast<std::size_t>(operand)]; }
  std::int64_t stride(Operand operand) const { return strides[static_cast<std::size_t>(operand)]; }
};

// What a plan asks of addresses and row strides, worked out once: each launch is held to it.
class AlignmentRule {
 public:
  explicit AlignmentRule(const Plan& plan);
  bool holds(const LaunchArguments& arguments) const;

 private:
  // A power of two less one, in bytes and in elements; 0 for what need not be aligned.
  std::array<std::uintptr_t, kOperandCount> address_masks_{};
  std::array<std::int64_t, kOperandCount> stride_masks_{};
};

// A kernel in a device, ready to launch; unloads itself.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  const Plan& plan() const { return plan_; }
  // As satisfies_alignment(plan(), arguments).
  bool takes_alignment_of(const LaunchArguments& arguments) const { return alignment_.holds(arguments); }

 protected:
  explicit LoadedKernel(Plan plan) : plan_(std::move(plan)), alignment_(plan_) {}

 private:
  Plan plan_;
  AlignmentRule alignment_;
};

// All functions may be called from several threads.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  virtual Result<Buffer> allocate(std::size_t bytes) = 0;  // aligned to 256 bytes at least
  virtual Result<void> copy_in(void* device_address, const void* source, std::size_t bytes) = 0;
  virtual Result<void> copy_out(void* destination, const void* device_address, std::size_t bytes) = 0;

  // Makes code for exactly this device of portable kernels (runtime/device_compiler.h); null where nothing here can. Lives as long
  // as the device.
  virtual DeviceCompiler* compiler() { return nullptr; }

  // Refuses an artifact of another target kind, or one that this device cannot run, naming both.
  virtual Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact, const Plan& plan) = 0;

  // Whether kernels can be loaded now: not while `stream` is being captured into a graph, which a load would spoil.
  virtual Result<void> check_can_load(void* /*stream*/) { return {}; }

  // The arguments must satisfy the kernel's plan (check_arguments); returns when the work is queued (host: done).
  virtual Result<void> launch(const LoadedKernel& kernel, const LaunchArguments& arguments) = 0;
  // Waits for what was launched without a stream, and reports its faults; copies wait for it, too.
  virtual Result<void> synchronize() = 0;

  // Time of one launch in microseconds, alone on the device as far as that can be had.
  virtual Result<double> measure_us(const LoadedKernel& kernel, const LaunchArguments& arguments) = 0;

  // Time of one copy from the device's memory to the device's memory, measured as launches are: what their time is held against.
  // Error (environment): this device measures none. On the host the tuner has a copy that uses its threads (tuner/host_copy.h).
  virtual Result<double> measure_copy_us(void* to, const void* from, std::size_t bytes);
};

// Rules every launch is held to: no null address of an operand that is there, rows >= 0, strides that do not make rows overlap.
Result<void> check_arguments(const KernelSpec& spec, const LaunchArguments& arguments);

// Bytes that the address of `operand` and, of a row operand, its row stride must be multiples of.
int alignment_bytes(const Plan& plan, Operand operand);

// Whether the addresses and strides have the alignment that the plan asks for; if not, unaligned_schedule(plan) serves.
bool satisfies_alignment(const Plan& plan, const LaunchArguments& arguments);

// The host CPU with `threads` threads (0: one per core this process may use). The calling thread is one of them.
Result<std::unique_ptr<Device>> make_host_device(int threads);
// The host CPU with the caller's threads (runtime/executor.h), which the device keeps alive.
Result<std::unique_ptr<Device>> make_host_device(std::shared_ptr<Executor> executor);

}  // namespace headnorm
