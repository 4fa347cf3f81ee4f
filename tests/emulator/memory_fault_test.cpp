// Each rule about memory has a kernel that breaks it, and a twin that differs in that alone and runs.
#include "tests/emulator/run_ptx.h"

namespace headnorm::emulator::test {
namespace {

struct Twins {
  const char* name;
  const char* faulty;
  const char* clean;
  Rule rule;
  const char* instruction;  // that the fault names
  const char* words;        // that it says
};

// p0: 256 bytes written, p1: 256 bytes never written, p2: an allocation that was freed, p3: a host address.
LaunchResult run_body(const char* body, std::uint32_t blocks = 1) {
  Bench bench;
  static int host_value = 0;
  const std::uint64_t freed = bench.buffer(256);
  const std::vector<std::uint64_t> parameters = {bench.buffer(256), bench.buffer(256, 0), freed,
                                                 reinterpret_cast<std::uint64_t>(&host_value)};
  bench.device.release(freed);
  return bench.run(kernel_text(4, body), parameters, shape_of(blocks, 32, 64));
}

const Twins kTwins[] = {
    {"global, past the end", "ld.global.f32 %r1, [%p0+256];", "ld.global.f32 %r1, [%p0+252];", Rule::in_bounds, "ld.global.f32",
     "0 past the end of an allocation of 256 bytes"},
    {"global, across the end", "st.global.v4.f32 [%p0+256], {%t, %t, %t, %t};",
     "setp.eq.u32 %q1, %t, 0; @%q1 st.global.v4.f32 [%p0+240], {%t, %t, %t, %t};", Rule::in_bounds, "st.global.v4.f32",
     "past the end"},
    {"global, before the start", "ld.global.f32 %r1, [%p0+-4];", "ld.global.f32 %r1, [%p0+0];", Rule::in_bounds, "ld.global.f32",
     "4 before an allocation"},
    {"global, in a red zone of another", "ld.global.f32 %r1, [%p0+2048];", "ld.global.f32 %r1, [%p0];", Rule::in_bounds,
     "ld.global.f32", "past the end"},
    {"global, generic address", "ld.f32 %r1, [%p0+256];", "ld.f32 %r1, [%p0+128];", Rule::in_bounds, "ld.f32", "past the end"},
    {"global, after its end", "ld.global.f32 %r1, [%p2];", "ld.global.f32 %r1, [%p0];", Rule::in_bounds, "ld.global.f32",
     "that was freed"},
    {"host pointer", "ld.global.f32 %r1, [%p3];", "ld.global.f32 %r1, [%p0];", Rule::device_memory, "ld.global.f32",
     "a host pointer"},
    {"null pointer", "mov.u64 %d1, 0; st.global.f32 [%d1], %t;", "setp.eq.u32 %q1, %t, 0; @%q1 st.global.f32 [%p0], %t;",
     Rule::device_memory, "st.global.f32", "no address of the device"},
    {"shared, past the array",
     ".shared .align 4 .b8 s[128]; mov.u32 %r1, s; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; st.shared.f32 [%r1+4], %r2;",
     ".shared .align 4 .b8 s[128]; mov.u32 %r1, s; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; st.shared.f32 [%r1], %r2;",
     Rule::in_bounds, "st.shared.f32", "outside of every array"},
    {"shared, between two arrays",
     ".shared .align 4 .b8 s[64]; .shared .align 4 .b8 u[64]; setp.eq.u32 %q1, %t, 0; mov.u32 %r1, u; @%q1 st.shared.u32 [s+64], "
     "%r1;",
     ".shared .align 4 .b8 s[64]; .shared .align 4 .b8 u[64]; setp.eq.u32 %q1, %t, 0; mov.u32 %r1, u; @%q1 st.shared.u32 [s+60], "
     "%r1;",
     Rule::in_bounds, "@%q1 st.shared.u32", "outside"},
    {"shared, past the dynamic part", "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 64; @%q1 st.shared.u32 [%r1], %t;",
     "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 60; @%q1 st.shared.u32 [%r1], %t;", Rule::in_bounds, "@%q1 st.shared.u32", "outside"},
    {"local", ".local .align 4 .b8 l[16]; mov.u64 %d1, l; st.local.u32 [%d1+32], %t;",
     ".local .align 4 .b8 l[16]; mov.u64 %d1, l; st.local.u32 [%d1+12], %t;", Rule::in_bounds, "st.local.u32",
     "outside of local memory"},
    {"param", "ld.param.u64 %d1, [p3+8];", "ld.param.u64 %d1, [p3];", Rule::in_bounds, "ld.param.u64", "in no parameter"},
    {"alignment of one element", "ld.global.f32 %r1, [%p0+2];", "ld.global.f32 %r1, [%p0+4];", Rule::alignment, "ld.global.f32",
     "multiple of 4"},
    {"alignment of the whole vector", "ld.global.v4.f32 {%r1, %r2, %r3, %r4}, [%p0+8];",
     "ld.global.v4.f32 {%r1, %r2, %r3, %r4}, [%p0+16];", Rule::alignment, "ld.global.v4.f32", "multiple of 16"},
    {"alignment in shared memory", "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 4; @%q1 st.shared.u64 [%r1], %p0;",
     "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 8; @%q1 st.shared.u64 [%r1], %p0;", Rule::alignment, "@%q1 st.shared.u64",
     "multiple of 8"},
    {"global, never written", "ld.global.f32 %r1, [%p1];",
     "setp.eq.u32 %q1, %t, 0; @%q1 st.global.u32 [%p1], %t; @%q1 ld.global.f32 %r1, [%p1];", Rule::initialised, "ld.global.f32",
     "global memory that nothing has written"},
    {"global atomic, never written", "red.global.add.u32 [%p1], 1;", "red.global.add.u32 [%p0], 1;", Rule::initialised,
     "red.global.add.u32", "nothing has written"},
    {"shared, never written", "mov.u32 %r1, 0; ld.shared.f32 %r2, [%r1];",
     "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 0; @%q1 st.shared.u32 [%r1], %t; bar.sync 0; ld.shared.f32 %r2, [%r1];",
     Rule::initialised, "ld.shared.f32", "shared memory that nothing has written"},
    {"shared, half of it written",
     "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 0; @%q1 st.shared.u32 [%r1], %t; bar.sync 0; ld.shared.v2.u32 {%r2, %r3}, [%r1];",
     "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 0; @%q1 st.shared.u32 [%r1], %t; bar.sync 0; .pragma \"used_bytes_mask 15\"; "
     "ld.shared.v2.u32 {%r2, %r3}, [%r1];",
     Rule::initialised, "ld.shared.v2.u32", "nothing has written"},
    {"local, never written", ".local .align 4 .b8 l[16]; mov.u64 %d1, l; ld.local.u32 %r1, [%d1];",
     ".local .align 4 .b8 l[16]; mov.u64 %d1, l; st.local.u32 [%d1], %t; ld.local.u32 %r1, [%d1];", Rule::initialised,
     "ld.local.u32", "local memory that nothing has written"},
    {"register, never set", "add.u32 %r1, %r2, 1;", "mov.u32 %r2, 0; add.u32 %r1, %r2, 1;", Rule::initialised, "add.u32",
     "register %r2, which has not been set"},
    {"register, set by some lanes", "setp.lt.u32 %q1, %t, 31; @%q1 mov.u32 %r2, 0; add.u32 %r1, %r2, 1;",
     "setp.lt.u32 %q1, %t, 32; @%q1 mov.u32 %r2, 0; add.u32 %r1, %r2, 1;", Rule::initialised, "add.u32", "has not been set"},
    {"register, undefined and moved on", "mov.u32 %r1, %r2; shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; add.u32 %r4, %r3, 1;",
     "mov.u32 %r1, %r2; shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;", Rule::initialised, "add.u32", "%r3"},
    {"predicate, never set", "@%q1 mov.u32 %r1, 0;", "setp.eq.u32 %q1, %t, 0; @%q1 mov.u32 %r1, 0;", Rule::initialised,
     "@%q1 mov.u32", "%q1"},
    {"value the pragma left out",
     "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 0; @%q1 st.shared.u32 [%r1], %t; bar.sync 0; .pragma \"used_bytes_mask 15\"; "
     "ld.shared.v2.u32 {%r2, %r3}, [%r1]; add.u32 %r4, %r3, 1;",
     "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 0; @%q1 st.shared.u32 [%r1], %t; bar.sync 0; .pragma \"used_bytes_mask 15\"; "
     "ld.shared.v2.u32 {%r2, %r3}, [%r1]; add.u32 %r4, %r2, 1;",
     Rule::initialised, "add.u32", "%r3"},
    {"trap", "trap;", "", Rule::trap, "trap", "stopped itself"},
};

TEST(MemoryFaults, EachKernelHasExactlyItsFaultAndItsTwinNone) {
  for (const Twins& twins : kTwins) {
    const LaunchResult faulty = run_body(twins.faulty);
    EXPECT_EQ(unlike(faulty, twins.rule, twins.instruction), "") << twins.name;
    EXPECT_NE(fault_text(faulty).find(twins.words), std::string::npos) << twins.name << ": " << fault_text(faulty);
    EXPECT_EQ(fault_text(run_body(twins.clean)), "") << twins.name;
  }
}

TEST(MemoryFaults, ReportNamesKernelLineBlockThreadAndAddress) {
  Bench bench;
  const std::uint64_t buffer = bench.buffer(2 * 64 * 4 - 4);
  const std::string body =
      "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 64, %t; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %p0, %d1;\nst.global.u32 [%d1], "
      "%r1;";
  const LaunchResult result = bench.run(kernel_text(1, body), {buffer}, shape_of(2, 64));
  ASSERT_TRUE(result.fault.has_value());
  const Fault& fault = *result.fault;
  EXPECT_EQ(fault.kernel, "k");
  EXPECT_EQ(fault.instruction, "st.global.u32 [%d1], %r1");
  EXPECT_EQ(fault.line, 11);
  EXPECT_EQ(fault.block.x, 1u);
  EXPECT_EQ(fault.thread.x, 63u);
  EXPECT_EQ(fault.address, buffer + 508);
  EXPECT_EQ(to_text(fault), fmt::format("kernel k, line 11 'st.global.u32 [%d1], %r1', block (1,0,0), thread (63,0,0), address "
                                        "{:#x}: writes 4 bytes, 0 past the end of an "
                                        "allocation of 508 bytes (rule: in_bounds)",
                                        buffer + 508));
}

TEST(MemoryFaults, TwoBlocksMustNotWriteOneByte) {
  const char* overlapping = "setp.eq.u32 %q1, %t, 0; @%q1 st.global.u32 [%p0], %t;";
  const char* apart =
      "setp.eq.u32 %q1, %t, 0; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %p0, %d1; @%q1 st.global.u32 [%d1], "
      "%t;";
  const char* atomic = "red.global.add.u32 [%p0], %t;";
  EXPECT_EQ(unlike(run_body(overlapping, 2), Rule::block_overlap, "@%q1 st.global.u32"), "");
  EXPECT_EQ(fault_text(run_body(overlapping, 1)), "");
  EXPECT_EQ(fault_text(run_body(apart, 2)), "");
  EXPECT_EQ(fault_text(run_body(atomic, 2)), "");
}

TEST(MemoryFaults, BlocksOfTwoLaunchesMayWriteOneByte) {
  Bench bench;
  const std::uint64_t buffer = bench.buffer(4, 0);
  const std::string ptx = kernel_text(1, "setp.eq.u32 %q1, %t, 0; @%q1 st.global.u32 [%p0], %t;");
  EXPECT_EQ(fault_text(bench.run(ptx, {buffer}, shape_of(1, 32))), "");
  EXPECT_EQ(fault_text(bench.run(ptx, {buffer}, shape_of(1, 32))), "");
}

TEST(MemoryFaults, PointersOfAnotherDeviceAreNone) {
  Bench first;
  Device second(Model::h200, 1);
  const std::uint64_t foreign = second.allocate(64);
  EXPECT_EQ(unlike(first.run(kernel_text(1, "ld.global.u32 %r1, [%p0];"), {foreign}, shape_of(1, 1)), Rule::device_memory,
                   "ld.global.u32"),
            "");
}

TEST(MemoryFaults, ChecksOfInitialisationCanBeLeftOut) {
  Bench bench;
  const std::uint64_t buffer = bench.buffer(64, 0);
  LaunchOptions options;
  options.checks.initialised_memory = Check::off;
  options.checks.initialised_registers = Check::off;
  EXPECT_EQ(
      fault_text(bench.run(kernel_text(1, "ld.global.u32 %r1, [%p0]; add.u32 %r1, %r1, %r2;"), {buffer}, shape_of(1, 1), options)),
      "");
}

TEST(DeviceMemory, GigabytesThatNobodyTouchesCostNothing) {
  Device device(Model::h200);
  const std::uint64_t bytes = std::uint64_t{40} << 30, base = device.allocate(bytes);
  ASSERT_NE(base, 0u);
  const std::uint32_t value = 7;
  EXPECT_TRUE(device.write(base + bytes - 4, &value, 4));
  EXPECT_FALSE(device.write(base + bytes - 3, &value, 4));
  EXPECT_EQ(device.allocate(std::uint64_t{200} << 30), 0u) << "more than the device has";
  EXPECT_TRUE(device.release(base));
  EXPECT_FALSE(device.release(base));
  EXPECT_EQ(device.used_bytes(), 0u);
}

}  // namespace
}  // namespace headnorm::emulator::test
