// Branches, schedules and counters.
#include "tests/emulator/run_ptx.h"

namespace headnorm::emulator::test {
namespace {

// out[thread] = result of the body in %r1.
std::vector<std::uint32_t> results(const std::string& body, std::uint32_t threads, const LaunchOptions& options = {}) {
  Bench bench;
  const std::uint64_t out = bench.buffer(4 * threads);
  const std::string store = "\nmul.wide.u32 %d30, %t, 4; add.u64 %d30, %p0, %d30; st.global.u32 [%d30], %r1;";
  EXPECT_EQ(fault_text(bench.run(kernel_text(1, body + store), {out}, shape_of(1, threads), options)), "") << body;
  return bench.values<std::uint32_t>(out, threads);
}

std::vector<std::uint32_t> expected(std::uint32_t threads, std::uint32_t (*f)(std::uint32_t)) {
  std::vector<std::uint32_t> values;
  for (std::uint32_t i = 0; i < threads; ++i) values.push_back(f(i));
  return values;
}

TEST(Control, DivergedLoopsMeetAgain) {
  // Each lane goes round as often as its number says; after the loop all meet in a shuffle, which needs every lane.
  const char* body =
      "mov.u32 %r1, 0; mov.u32 %r2, 0; L: setp.ge.u32 %q1, %r2, %t; @%q1 bra E; add.u32 %r1, %r1, %r2; add.u32 %r2, %r2, 1; bra L; "
      "E: shfl.sync.idx.b32 %r3, %t, 0, 31, -1;";
  EXPECT_EQ(results(body, 64), expected(64, [](std::uint32_t i) { return i * (i - 1) / 2; }));
}

TEST(Control, NestedBranchesAndTables) {
  const char* nested =
      "and.b32 %r2, %t, 3; setp.eq.u32 %q1, %r2, 0; @%q1 bra A; setp.eq.u32 %q2, %r2, 1; @%q2 bra B; mov.u32 %r1, 9; bra E; A: "
      "mov.u32 %r1, 7; bra E; B: mov.u32 %r1, 8; E:";
  EXPECT_EQ(results(nested, 32), expected(32, [](std::uint32_t i) { return i % 4 == 0 ? 7u : i % 4 == 1 ? 8u : 9u; }));
  const char* table = "and.b32 %r2, %t, 1; T: .branchtargets A, B; brx.idx %r2, T; A: mov.u32 %r1, 3; bra E; B: mov.u32 %r1, 4; E:";
  EXPECT_EQ(results(table, 32), expected(32, [](std::uint32_t i) { return 3 + i % 2; }));
}

TEST(Control, LanesThatSpinLetOthersRun) {
  // Lane 0 waits in an earlier loop for what lane 1 stores behind it.
  const char* body =
      ".shared .align 4 .b8 f[4]; setp.eq.u32 %q1, %t, 2; mov.u32 %r5, 0; @%q1 st.volatile.shared.u32 [f], %r5; bar.sync 0; "
      "mov.u32 %r1, 0; setp.eq.u32 %q2, %t, 0; @!%q2 bra S; "
      "W: ld.volatile.shared.u32 %r1, [f]; setp.eq.u32 %q3, %r1, 0; @%q3 bra W; bra E; S: setp.eq.u32 %q4, %t, 1; mov.u32 %r6, 5; "
      "@%q4 st.volatile.shared.u32 [f], %r6; E:";
  EXPECT_EQ(results(body, 32)[0], 5u);
}

TEST(Control, WarpInstructions) {
  EXPECT_EQ(results("shfl.sync.up.b32 %r1|%q1, %t, 1, 0, -1; @!%q1 mov.u32 %r1, 99;", 32),
            expected(32, [](std::uint32_t i) { return i == 0 ? 99u : i - 1; }));
  EXPECT_EQ(results("shfl.sync.down.b32 %r1, %t, 3, 0x1807, -1;", 32),
            expected(32, [](std::uint32_t i) { return i % 8 + 3 < 8 ? i + 3 : i; }));
  EXPECT_EQ(results("shfl.sync.idx.b32 %r1, %t, 5, 0x181f, -1;", 32), expected(32, [](std::uint32_t i) { return i / 8 * 8 + 5; }));
  EXPECT_EQ(results("setp.gt.u32 %q1, %t, 29; vote.sync.ballot.b32 %r1, %q1, -1;", 32),
            expected(32, [](std::uint32_t) { return 0xc0000000u; }));
  EXPECT_EQ(results("redux.sync.add.u32 %r1, %t, -1;", 32), expected(32, [](std::uint32_t) { return 496u; }));
  EXPECT_EQ(results("redux.sync.min.s32 %r1, %t, -1;", 64), expected(64, [](std::uint32_t i) { return i / 32 * 32; }));
  EXPECT_EQ(results("shr.u32 %r2, %t, 2; match.any.sync.b32 %r1, %r2, -1;", 32),
            expected(32, [](std::uint32_t i) { return 15u << i / 4 * 4; }));
  EXPECT_EQ(results("mov.u32 %r1, %lanemask_lt;", 32), expected(32, [](std::uint32_t i) { return (1u << i) - 1; }));
  EXPECT_EQ(results("setp.lt.u32 %q1, %t, 40; bar.red.popc.u32 %r1, 0, %q1;", 64), expected(64, [](std::uint32_t) { return 40u; }));
  EXPECT_EQ(results("setp.lt.u32 %q1, %t, 40; bar.red.and.pred %q2, 0, %q1; selp.u32 %r1, 1, 0, %q2;", 64),
            expected(64, [](std::uint32_t) { return 0u; }));
}

TEST(Control, Atomics) {
  for (Order order : {Order::forward, Order::reverse, Order::random}) {
    LaunchOptions options;
    options.order = order;
    Bench bench;
    const std::uint64_t counter = bench.buffer(64);
    const std::string body =
        "atom.global.add.u32 %r1, [%p0], 2; red.global.max.s32 [%p0+4], %t; red.global.or.b32 [%p0+8], %t; mov.u32 %r2, "
        "0f3F800000; red.global.add.f32 [%p0+12], %r2; "
        "atom.global.inc.u32 %r3, [%p0+16], 9; atom.global.cas.b32 %r4, [%p0+20], 0, %t;";
    ASSERT_EQ(fault_text(bench.run(kernel_text(1, body), {counter}, shape_of(3, 64), options)), "");
    const auto values = bench.values<std::uint32_t>(counter, 5);
    EXPECT_EQ(values, (std::vector<std::uint32_t>{384, 63, 63, std::bit_cast<std::uint32_t>(192.0f), 192 % 10}));
  }
}

TEST(Counters, InstructionsByKindAndByThread) {
  Bench bench;
  const LaunchResult result =
      bench.run(kernel_text(0, "setp.lt.u32 %q1, %t, 10; @%q1 add.u32 %r1, %t, 1; bar.sync 0;"), {}, shape_of(2, 64));
  ASSERT_EQ(fault_text(result), "");
  const auto of = [&](Kind kind) { return result.counters.instructions[static_cast<std::size_t>(kind)]; };
  EXPECT_EQ(of(Kind::integer).threads, 20u);
  EXPECT_EQ(of(Kind::integer).warps, 4u);
  EXPECT_EQ(of(Kind::compare).threads, 128u);
  EXPECT_EQ(of(Kind::barrier).warps, 4u);
  EXPECT_EQ(result.counters.barriers, 2u);
  EXPECT_EQ(result.counters.blocks, 2u);
}

Counters count_loads(const std::string& address, std::uint32_t blocks = 1) {
  Bench bench;
  const std::uint64_t buffer = bench.buffer(64 * 1024);
  const LaunchResult result =
      bench.run(kernel_text(1, address + " add.u64 %d1, %p0, %d1; ld.global.f32 %r9, [%d1];"), {buffer}, shape_of(blocks, 32));
  EXPECT_EQ(fault_text(result), "");
  return result.counters;
}

TEST(Counters, SectorsAgainstBytes) {
  const Counters dense = count_loads("mul.wide.u32 %d1, %t, 4;", 3);
  EXPECT_EQ(dense.loads.requested_bytes, 3 * 128u);
  EXPECT_EQ(dense.loads.sectors, 3 * 4u);
  EXPECT_EQ(dense.loads.footprint_bytes, 128u) << "three blocks load the same bytes";
  const Counters strided = count_loads("mul.wide.u32 %d1, %t, 64;");
  EXPECT_EQ(strided.loads.sectors, 32u);
  EXPECT_EQ(strided.loads.footprint_bytes, 1024u);
  EXPECT_EQ(count_loads("mov.u64 %d1, 4;").loads.sectors, 1u);
}

TEST(Counters, BankConflicts) {
  const auto conflicts = [](int stride) {
    Bench bench;
    const std::string body = fmt::format(
        ".shared .align 16 .b8 s[16384]; mov.u32 %r1, s; mad.lo.u32 %r1, %t, {}, %r1; st.shared.u32 [%r1], %t;", stride);
    return bench.run(kernel_text(0, body), {}, shape_of(1, 32)).counters.shared_bank_conflicts;
  };
  EXPECT_EQ(conflicts(4), 0u);
  EXPECT_EQ(conflicts(8), 1u);
  EXPECT_EQ(conflicts(128), 31u);
  EXPECT_EQ(conflicts(132), 0u);
}

TEST(Launch, OnlyTheBlocksAskedForRun) {
  Bench bench;
  const std::uint64_t out = bench.buffer(4 * 1000);
  LaunchOptions options;
  options.blocks = {{0, 1}, {998, 1000}};
  const std::string body = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %p0, %d1; st.global.u32 [%d1], 1;";
  const LaunchResult result = bench.run(kernel_text(1, body), {out}, shape_of(1000, 1), options);
  ASSERT_EQ(fault_text(result), "");
  EXPECT_EQ(result.counters.blocks, 3u);
  const auto values = bench.values<std::uint32_t>(out, 1000);
  EXPECT_EQ(std::count(values.begin(), values.end(), 1u), 3);
  EXPECT_EQ(values[999], 1u);
}

}  // namespace
}  // namespace headnorm::emulator::test
