// Kernels that may start before the one before them has ended: what they touch ahead of griddepcontrol.wait.
#include "tests/emulator/run_ptx.h"

namespace headnorm::emulator::test {
namespace {

// p0, p1: 128 bytes each; %d0 and %d1 are the thread's words in them.
constexpr const char* kPlaces = "mul.wide.u32 %d2, %t, 4; add.u64 %d0, %p0, %d2; add.u64 %d1, %p1, %d2;\n";
constexpr const char* kWritesFirst = "st.global.u32 [%d0], %t;";
constexpr const char* kReadsFirst = "ld.global.u32 %r1, [%d0]; st.global.u32 [%d1], %r1;";

struct Case {
  const char* name;
  std::vector<const char*> kernels;  // launched one after the other, the later ones so that they may start early
  const char* what;                  // "" or of the last one's fault
};

const Case kCases[] = {
    {"reads what the kernel before writes", {kWritesFirst, "ld.global.u32 %r1, [%d0]; griddepcontrol.wait;"}, "writes"},
    {"and waits first", {kWritesFirst, "griddepcontrol.wait; ld.global.u32 %r1, [%d0];"}, ""},
    {"reads something else", {kWritesFirst, "ld.global.u32 %r1, [%d1]; griddepcontrol.wait;"}, ""},
    {"copies what the kernel before writes",
     {kWritesFirst,
      ".shared .align 16 .b8 s[128]; mov.u32 %r2, s; shl.b32 %r3, %t, 2; add.u32 %r2, %r2, %r3; cp.async.ca.shared.global [%r2], "
      "[%d0], 4; "
      "cp.async.wait_all; griddepcontrol.wait;"},
     "writes"},
    {"writes what the kernel before writes", {kWritesFirst, "st.global.u32 [%d0], %t; griddepcontrol.wait;"}, "writes"},
    {"writes what the kernel before reads", {kReadsFirst, "st.global.u32 [%d0], %t; griddepcontrol.wait;"}, "reads"},
    {"and waits first, writing", {kReadsFirst, "griddepcontrol.wait; st.global.u32 [%d0], %t;"}, ""},
    {"half of a warp waits",
     {kWritesFirst, "setp.lt.u32 %q0, %t, 16; @%q0 griddepcontrol.wait; ld.global.u32 %r1, [%d0];"},
     "writes"},
    {"after a kernel that let it start once it had waited",
     {kWritesFirst, "griddepcontrol.wait; griddepcontrol.launch_dependents;", "ld.global.u32 %r1, [%d0];"},
     ""},
    {"after a kernel that let it start before it had waited",
     {kWritesFirst, "griddepcontrol.launch_dependents; griddepcontrol.wait;", "ld.global.u32 %r1, [%d0];"},
     "writes"},
    {"after a kernel that never waited", {kWritesFirst, "add.u32 %r1, %t, 1;", "ld.global.u32 %r1, [%d0];"}, "writes"},
};

std::string run(const Case& test, bool settles) {
  Bench bench;
  const std::vector<std::uint64_t> parameters = {bench.buffer(128), bench.buffer(128)};
  LaunchShape shape = shape_of(1, 32);
  LaunchResult result;
  std::vector<std::shared_ptr<Module>> modules;
  for (const char* body : test.kernels) {
    auto module = bench.device.load(kernel_text(2, std::string(kPlaces) + body, "", "sm_90"));
    EXPECT_TRUE(module.ok()) << module.message();
    modules.push_back(*module);
  }
  for (const auto& module : modules) {
    EXPECT_EQ(fault_text(result), "") << test.name;
    result = bench.device.launch(*module, "k", shape, pack_parameters(module->facts("k"), parameters));
    shape.starts_early = true;
    if (settles) bench.device.settle();
  }
  return fault_text(result);
}

TEST(LaunchOrder, WhatAKernelThatMayStillRunTouchesIsFound) {
  for (const Case& test : kCases) {
    const std::string found = run(test, false);
    EXPECT_EQ(found.find("rule: launch_order") != std::string::npos, test.what[0] != '\0') << test.name << ": " << found;
    EXPECT_NE(found.find(test.what), std::string::npos) << test.name << ": " << found;
  }
}

TEST(LaunchOrder, AKernelThatTheHostHasWaitedForHasEnded) {
  for (const Case& test : kCases) EXPECT_EQ(run(test, true), "") << test.name;
}

}  // namespace
}  // namespace headnorm::emulator::test
