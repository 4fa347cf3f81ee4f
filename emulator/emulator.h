// An emulated GPU: runs the kernels of PTX modules on this processor, checks every access against the rules of PTX, and counts.
//
// Memory of a device lies in an address range that host code cannot read; bytes go in and out by write and read. Nothing is timed.
// A Device and its modules are used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/device_model.h"
#include "emulator/launch.h"
#include "emulator/outcome.h"

namespace headnorm::emulator {

struct KernelFacts {
  std::uint64_t static_shared_bytes = 0, local_bytes = 0, parameter_bytes = 0;
  struct Parameter {
    std::uint64_t offset = 0, bytes = 0;
  };
  std::vector<Parameter> parameters;
  std::uint32_t max_threads = 0;  // a block may have, by the device and the kernel
  std::uint32_t registers = 0;    // a rough guess from the text: what ptxas would give is not known
  Dim3 required_cluster{0, 0, 0};
  int ptx_version = 0;
};

class Module;

class Device {
 public:
  explicit Device(Model model, int ordinal = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceModel& model() const;

  // 0 where there is not so much left; 0 bytes are no allocation.
  std::uint64_t allocate(std::uint64_t bytes);
  bool release(std::uint64_t address);  // false: no allocation begins there
  // False: not inside one live allocation; nothing is moved.
  bool write(std::uint64_t to, const void* from, std::uint64_t bytes);
  bool read(void* to, std::uint64_t from, std::uint64_t bytes) const;
  bool copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);  // and what is known of each byte
  bool fill(std::uint64_t to, std::uint64_t bytes, std::uint8_t value);
  // Base and size of the live allocation that holds an address; a size of 0: there is none.
  std::pair<std::uint64_t, std::uint64_t> find_allocation(std::uint64_t address) const;
  std::uint64_t used_bytes() const;
  // The host has waited: none of the launches so far may run beside a later one. Moving bytes in or out waits, too.
  void settle();

  // Failure: PTX that does not parse, has an instruction that is not known, or is newer than the device or its driver.
  Outcome<std::shared_ptr<Module>> load(std::string_view ptx);

  // Parameters as bytes: each at its offset (KernelFacts). A launch that the device cannot do is a fault of Rule::launch_limit.
  LaunchResult launch(const Module& module, std::string_view kernel, const LaunchShape& shape,
                      const std::vector<std::uint8_t>& parameters, const LaunchOptions& options = {});

 private:
  friend class Module;
  struct State;
  std::shared_ptr<State> state_;
};

class Module {
 public:
  ~Module();
  std::vector<std::string> kernel_names() const;
  bool has_kernel(std::string_view name) const;
  KernelFacts facts(std::string_view kernel) const;  // of a kernel that it has
  // Address and size of a .global or .const variable; a size of 0: there is none of that name.
  std::pair<std::uint64_t, std::uint64_t> find_variable(std::string_view name) const;

 private:
  friend class Device;
  struct State;
  explicit Module(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The parameters of a kernel from 8-byte values, each cut to the parameter's size.
std::vector<std::uint8_t> pack_parameters(const KernelFacts& facts, const std::vector<std::uint64_t>& values);

}  // namespace headnorm::emulator
