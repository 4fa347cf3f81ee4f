// Asynchronous copies, mbarriers and clusters: each fault with a twin that differs in that alone.
#include "tests/emulator/run_ptx.h"

namespace headnorm::emulator::test {
namespace {

struct Twins {
  const char* name;
  const char* faulty;
  const char* clean;
  Rule rule;
  const char* instruction;
};

// p0: 1024 bytes written, p1: 1024 bytes for results. s: 1024 bytes, b: two mbarriers; %q0: the first thread.
constexpr const char* kHead =
    ".shared .align 128 .b8 s[1024]; .shared .align 8 .b8 b[16]; mov.u32 %r10, s; mov.u32 %r20, b; shl.b32 %r11, %t, 4; add.u32 "
    "%r12, %r10, %r11; "
    "mul.wide.u32 %d11, %t, 16; add.u64 %d12, %p0, %d11; add.u64 %d13, %p1, %d11; setp.eq.u32 %q0, %t, 0;\n";
#define HEADNORM_COPY "cp.async.cg.shared.global [%r12], [%d12], 16; "
#define HEADNORM_INIT "@%q0 mbarrier.init.shared.b64 [%r20], 1; fence.proxy.async.shared::cta; bar.sync 0; "
#define HEADNORM_BULK "@%q0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%p0], 512, [%r20]; "
#define HEADNORM_EXPECT(bytes) "@%q0 mbarrier.arrive.expect_tx.shared.b64 %d1, [%r20], " bytes "; "
#define HEADNORM_WAIT "W: mbarrier.try_wait.parity.shared.b64 %q1, [%r20], 0; @!%q1 bra W; "
#define HEADNORM_FILL "mov.u32 %r1, 1; st.shared.v4.u32 [%r12], {%r1, %r1, %r1, %t}; fence.proxy.async.shared::cta; bar.sync 0; "
#define HEADNORM_OUT "@%q0 cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r10], 512; @%q0 cp.async.bulk.commit_group; "

const Twins kTwins[] = {
    {"cp.async, read before the wait", HEADNORM_COPY "cp.async.commit_group; ld.shared.u32 %r1, [%r12]; cp.async.wait_group 0;",
     HEADNORM_COPY "cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r1, [%r12];", Rule::async_copy, "ld.shared.u32"},
    {"cp.async, waited for an older group only",
     HEADNORM_COPY "cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r1, [%r12]; cp.async.wait_all;",
     HEADNORM_COPY
     "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r1, [%r12]; cp.async.wait_all;",
     Rule::async_copy, "ld.shared.u32"},
    {"cp.async, another thread's without a barrier", HEADNORM_COPY "cp.async.wait_all; ld.shared.u32 %r1, [%r10];",
     HEADNORM_COPY "cp.async.wait_all; bar.sync 0; ld.shared.u32 %r1, [%r10];", Rule::race, "ld.shared.u32"},
    {"cp.async, no wait before the end", HEADNORM_COPY "cp.async.commit_group;",
     HEADNORM_COPY "cp.async.commit_group; cp.async.wait_all;", Rule::async_copy, "ret"},
    {"cp.async, written while on its way", HEADNORM_COPY "st.shared.u32 [%r12], %t; cp.async.wait_all;",
     HEADNORM_COPY "cp.async.wait_all; st.shared.u32 [%r12], %t;", Rule::async_copy, "st.shared.u32"},
    {"cp.async, target not aligned", "cp.async.cg.shared.global [%r12+8], [%d12], 16; cp.async.wait_all;",
     HEADNORM_COPY "cp.async.wait_all;", Rule::alignment, "cp.async.cg"},
    {"cp.async, source not aligned", "cp.async.cg.shared.global [%r12], [%d12+8], 16; cp.async.wait_all;",
     HEADNORM_COPY "cp.async.wait_all;", Rule::alignment, "cp.async.cg"},
    {"cp.async, past the source", "cp.async.cg.shared.global [%r12], [%d12+1024], 16; cp.async.wait_all;",
     HEADNORM_COPY "cp.async.wait_all;", Rule::in_bounds, "cp.async.cg"},
    {"cp.async, more than the copy", "mov.u32 %r1, 17; cp.async.cg.shared.global [%r12], [%d12], 16, %r1; cp.async.wait_all;",
     "mov.u32 %r1, 3; cp.async.cg.shared.global [%r12], [%d12], 16, %r1; cp.async.wait_all;", Rule::async_copy, "cp.async.cg"},
    {"bulk copy, read before the wait",
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") "bar.sync 0; ld.shared.u32 %r1, [%r12]; " HEADNORM_WAIT,
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT "ld.shared.u32 %r1, [%r12];", Rule::async_copy,
     "ld.shared.u32"},
    {"bulk copy, only one thread waits",
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT(
         "512") "setp.ge.u32 %q2, %t, 32; @%q2 bra S; W: mbarrier.try_wait.parity.shared.b64 %q1, [%r20], 0; @!%q1 bra W; S: "
                "bar.sync 1; setp.ge.u32 %q2, %t, 0; bar.sync 1; ld.shared.u32 %r1, [%r12+64];",
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT(
         "512") "setp.ge.u32 %q2, %t, 32; @%q2 bra S; W: mbarrier.try_wait.parity.shared.b64 %q1, [%r20], 0; @!%q1 bra W; S: "
                "bar.sync 1; ld.shared.u32 %r1, [%r12];",
     Rule::initialised, "ld.shared.u32"},
    {"bulk copy, more bytes promised", HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("528") HEADNORM_WAIT,
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT, Rule::async_copy, nullptr},
    {"bulk copy, fewer bytes promised", HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("496") HEADNORM_WAIT,
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT, Rule::async_copy, nullptr},
    {"bulk copy, nobody waits", HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512"),
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT, Rule::async_copy, "@%q0 cp.async.bulk"},
    {"bulk copy, no whole 16 bytes",
     HEADNORM_INIT
     "@%q0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%p0], 500, [%r20]; " HEADNORM_EXPECT("500")
         HEADNORM_WAIT,
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT, Rule::async_copy, "@%q0 cp.async.bulk"},
    {"bulk copy, mbarrier not shown to the copy engine",
     "@%q0 mbarrier.init.shared.b64 [%r20], 1; bar.sync 0; " HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT,
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT, Rule::async_copy, "@%q0 cp.async.bulk"},
    {"mbarrier that was not initialised", "bar.sync 0; " HEADNORM_EXPECT("0"), HEADNORM_INIT HEADNORM_EXPECT("0"),
     Rule::initialised, "@%q0 mbarrier.arrive"},
    {"mbarrier that too many arrive at",
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") "bar.sync 1; @%q0 mbarrier.arrive.shared.b64 %d1, [%r20]; " HEADNORM_WAIT,
     HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT, Rule::barrier, "@%q0 mbarrier.arrive"},
    {"mbarrier that too few arrive at",
     "@%q0 mbarrier.init.shared.b64 [%r20], 2; bar.sync 0; @%q0 mbarrier.arrive.shared.b64 %d1, [%r20]; " HEADNORM_WAIT,
     HEADNORM_INIT "@%q0 mbarrier.arrive.shared.b64 %d1, [%r20]; " HEADNORM_WAIT, Rule::barrier, nullptr},
    {"mbarrier that is read as memory", HEADNORM_INIT "ld.shared.u64 %d1, [%r20];", HEADNORM_INIT, Rule::barrier, "ld.shared.u64"},
    {"bulk store, source changed too early",
     HEADNORM_FILL HEADNORM_OUT "@%q0 st.shared.u32 [%r10], %t; @%q0 cp.async.bulk.wait_group.read 0;",
     HEADNORM_FILL HEADNORM_OUT "@%q0 cp.async.bulk.wait_group.read 0; @%q0 st.shared.u32 [%r10], %t;", Rule::async_copy,
     "@%q0 st.shared.u32"},
    {"bulk store, no wait before the end", HEADNORM_FILL HEADNORM_OUT,
     HEADNORM_FILL HEADNORM_OUT "@%q0 cp.async.bulk.wait_group 0;", Rule::async_copy, "ret"},
    {"bulk store of what was not written",
     "@%q0 cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r10], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
     HEADNORM_FILL HEADNORM_OUT "cp.async.bulk.wait_group 0;", Rule::initialised, "@%q0 cp.async.bulk"},
};

TEST(AsyncFaults, EachKernelHasExactlyItsFaultAndItsTwinNone) {
  for (const Twins& twins : kTwins) {
    for (Order order : {Order::forward, Order::reverse, Order::random}) {
      LaunchOptions options;
      options.order = order;
      Bench bench;
      const std::vector<std::uint64_t> parameters = {bench.buffer(1024), bench.buffer(1024)};
      const auto run = [&](const char* body) {
        return bench.run(kernel_text(2, std::string(kHead) + body, "", "sm_90"), parameters, shape_of(1, 32), options);
      };
      EXPECT_EQ(unlike(run(twins.faulty), twins.rule, twins.instruction == nullptr ? "" : twins.instruction), "") << twins.name;
      EXPECT_EQ(fault_text(run(twins.clean)), "") << twins.name;
    }
  }
}

TEST(Async, CopiesArriveWithTheirBytes) {
  std::vector<std::uint32_t> values(256);
  for (std::uint32_t i = 0; i < 256; ++i) values[i] = 3 * i + 1;
  const char* bodies[] = {
      HEADNORM_COPY
      "cp.async.wait_all; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r12]; st.global.v4.u32 [%d13], {%r1, %r2, %r3, %r4};",
      HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT
      "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r12]; st.global.v4.u32 [%d13], {%r1, %r2, %r3, %r4};",
      HEADNORM_INIT HEADNORM_BULK HEADNORM_EXPECT("512") HEADNORM_WAIT "bar.sync 0; " HEADNORM_OUT
                                                                       "@%q0 cp.async.bulk.wait_group 0;",
      "@%q0 mbarrier.init.shared.b64 [%r20], 32; bar.sync 0; " HEADNORM_COPY
      "cp.async.mbarrier.arrive.noinc.shared.b64 [%r20]; " HEADNORM_WAIT
      "xor.b32 %r1, %r12, 16; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r1]; xor.b32 %r5, %t, 1; mul.wide.u32 %d5, %r5, 16; add.u64 "
      "%d5, %p1, %d5; st.global.v4.u32 [%d5], {%r1, %r2, %r3, %r4};",
  };
  for (const char* body : bodies) {
    Bench bench;
    const std::vector<std::uint64_t> parameters = {bench.buffer_of(values), bench.buffer(1024)};
    ASSERT_EQ(fault_text(bench.run(kernel_text(2, std::string(kHead) + body, "", "sm_90"), parameters, shape_of(1, 32))), "")
        << body;
    const auto got = bench.values<std::uint32_t>(parameters[1], 128);
    EXPECT_EQ(got, std::vector<std::uint32_t>(values.begin(), values.begin() + 128)) << body;
  }
}

TEST(Async, ShortCopiesAreFilledWithZeros) {
  Bench bench;
  const std::vector<std::uint64_t> parameters = {bench.buffer_of(std::vector<std::uint32_t>(256, 7)), bench.buffer(1024)};
  const std::string body = std::string(kHead) +
                           "mov.u32 %r1, 8; cp.async.cg.shared.global [%r12], [%d12], 16, %r1; cp.async.wait_all; "
                           "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r12]; st.global.v4.u32 [%d13], {%r1, %r2, %r3, %r4};";
  ASSERT_EQ(fault_text(bench.run(kernel_text(2, body, "", "sm_90"), parameters, shape_of(1, 32))), "");
  EXPECT_EQ(bench.values<std::uint32_t>(parameters[1], 4), (std::vector<std::uint32_t>{7, 7, 0, 0}));
}

constexpr const char* kCluster =
    ".shared .align 16 .b8 s[64]; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, s; setp.eq.u32 %q0, %t, 0; add.u32 %r3, %r1, 1; "
    "and.b32 %r3, %r3, 1; "
    "mapa.shared::cluster.u32 %r4, %r2, %r3; ";
const Twins kClusters[] = {
    {"read before the cluster's barrier",
     "@%q0 st.shared::cluster.u32 [%r4], %r1; ld.shared.u32 %r5, [%r2]; barrier.cluster.arrive; barrier.cluster.wait;",
     "@%q0 st.shared::cluster.u32 [%r4], %r1; barrier.cluster.arrive; barrier.cluster.wait; ld.shared.u32 %r5, [%r2];",
     Rule::initialised, "ld.shared.u32"},
    {"a block's barrier is not the cluster's",
     "@%q0 st.shared.u32 [%r2], %r1; barrier.cluster.arrive; barrier.cluster.wait; @%q0 st.shared::cluster.u32 [%r4], %r1; "
     "bar.sync 0; "
     "ld.shared.u32 %r5, [%r2]; barrier.cluster.arrive; barrier.cluster.wait;",
     "@%q0 st.shared.u32 [%r2], %r1; barrier.cluster.arrive; barrier.cluster.wait; @%q0 st.shared::cluster.u32 [%r4], %r1; "
     "barrier.cluster.arrive; barrier.cluster.wait; "
     "ld.shared.u32 %r5, [%r2];",
     Rule::race, nullptr},
    {"block that does not exist", "mov.u32 %r3, 2; mapa.shared::cluster.u32 %r4, %r2, %r3;",
     "mov.u32 %r3, 1; mapa.shared::cluster.u32 %r4, %r2, %r3;", Rule::in_bounds, "mapa"},
    {"block that has ended",
     "setp.eq.u32 %q1, %r1, 0; @%q1 ret; mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; setp.lt.u32 %q2, %r9, 30000; @%q2 bra L; @%q0 "
     "st.shared::cluster.u32 [%r4], %r1;",
     "barrier.cluster.arrive; @%q0 st.shared::cluster.u32 [%r4], %r1; barrier.cluster.wait; barrier.cluster.arrive; "
     "barrier.cluster.wait;",
     Rule::in_bounds, "@%q0 st.shared::cluster.u32"},
    {"wait without arriving", "barrier.cluster.wait;", "barrier.cluster.arrive; barrier.cluster.wait;", Rule::barrier,
     "barrier.cluster.wait"},
    {"barrier that one block does not reach",
     "setp.eq.u32 %q1, %r1, 0; @%q1 bra A; barrier.cluster.arrive; barrier.cluster.wait; A: bar.sync 0, 64;",
     "barrier.cluster.arrive; barrier.cluster.wait; bar.sync 0, 32;", Rule::barrier, nullptr},
};

TEST(ClusterFaults, EachKernelHasExactlyItsFaultAndItsTwinNone) {
  LaunchShape shape = shape_of(4, 32);
  shape.cluster = {2, 1, 1};
  for (const Twins& twins : kClusters) {
    Bench bench;
    const auto run = [&](const char* body) {
      return bench.run(kernel_text(0, std::string(kCluster) + body, "", "sm_90"), {}, shape);
    };
    EXPECT_EQ(unlike(run(twins.faulty), twins.rule, twins.instruction == nullptr ? "" : twins.instruction), "") << twins.name;
    EXPECT_EQ(fault_text(run(twins.clean)), "") << twins.name;
  }
}

}  // namespace
}  // namespace headnorm::emulator::test
