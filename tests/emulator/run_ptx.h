// Kernels for the tests of the emulator: a body of PTX between a head and an end, memory of a device, one launch.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulator/emulator.h"

namespace headnorm::emulator::test {

// A kernel `k` of `pointers` 64-bit parameters p0, p1, ...; each is loaded into %p0, %p1, ... Registers %r (b32), %d (b64), %h
// (b16), %q (predicates), 32 of each; %t holds the thread's number in x.
inline std::string kernel_text(int pointers, const std::string& body, const std::string& directives = "",
                               const std::string& target = "sm_80", const std::string& version = "8.0") {
  std::string parameters, loads;
  for (int i = 0; i < pointers; ++i) {
    parameters += fmt::format("{}.param .u64 p{}", i == 0 ? "" : ", ", i);
    loads += fmt::format("ld.param.u64 %p{0}, [p{0}];\n", i);
  }
  return fmt::format(
      ".version {}\n.target {}\n.address_size 64\n.visible .entry k({})\n{}\n{{\n"
      ".reg .b64 %p<8>, %d<32>; .reg .b32 %r<32>, %t; .reg .b16 %h<32>; .reg .pred %q<32>;\n{}mov.u32 %t, %tid.x;\n{}\nret;\n}}\n",
      version, target, parameters, directives, loads, body);
}

class Bench {
 public:
  explicit Bench(Model model = Model::h200) : device(model) {}

  // With its first `written` bytes set to zero; the others count as never written.
  std::uint64_t buffer(std::uint64_t bytes, std::uint64_t written) {
    const std::uint64_t address = device.allocate(bytes);
    device.fill(address, written, 0);
    return address;
  }
  std::uint64_t buffer(std::uint64_t bytes) { return buffer(bytes, bytes); }

  template <class T>
  std::uint64_t buffer_of(const std::vector<T>& values) {
    const std::uint64_t address = device.allocate(values.size() * sizeof(T));
    device.write(address, values.data(), values.size() * sizeof(T));
    return address;
  }
  template <class T>
  std::vector<T> values(std::uint64_t address, std::size_t count) const {
    std::vector<T> result(count);
    EXPECT_TRUE(device.read(result.data(), address, count * sizeof(T)));
    return result;
  }

  LaunchResult run(const std::string& ptx, const std::vector<std::uint64_t>& parameters, const LaunchShape& shape,
                   const LaunchOptions& options = {}) {
    Outcome<std::shared_ptr<Module>> module = device.load(ptx);
    if (!module.ok()) {
      ADD_FAILURE() << module.message() << "\n" << ptx;
      return {};
    }
    const std::string name = (*module)->kernel_names()[0];
    return device.launch(**module, name, shape, pack_parameters((*module)->facts(name), parameters), options);
  }

  Device device;
};

inline LaunchShape shape_of(std::uint32_t blocks, std::uint32_t threads, std::uint64_t dynamic_shared_bytes = 0) {
  LaunchShape shape;
  shape.grid = {blocks, 1, 1};
  shape.block = {threads, 1, 1};
  shape.dynamic_shared_bytes = dynamic_shared_bytes;
  return shape;
}

inline std::string fault_text(const LaunchResult& result) { return result.fault ? to_text(*result.fault) : ""; }

// "" where the launch ended with a fault of this rule, in an instruction that begins so.
inline std::string unlike(const LaunchResult& result, Rule rule, const std::string& instruction) {
  if (!result.fault) return "no fault";
  if (result.fault->rule != rule || !result.fault->instruction.starts_with(instruction)) return to_text(*result.fault);
  return "";
}

}  // namespace headnorm::emulator::test
