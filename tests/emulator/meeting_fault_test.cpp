// Barriers, shuffles and races: each fault with a twin that differs in that alone, under every order of warps.
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

constexpr const char* kShared =
    ".shared .align 16 .b8 s[1024]; mov.u32 %r10, s; shl.b32 %r11, %t, 2; add.u32 %r11, %r10, %r11; xor.b32 %r12, %t, 1; shl.b32 "
    "%r12, %r12, 2; "
    "add.u32 %r12, %r10, %r12; and.b32 %r13, %t, 31; mov.u32 %r14, %laneid;\n";

const Twins kTwins[] = {
    {"barrier in half of a warp", "setp.lt.u32 %q1, %r13, 16; @%q1 bra A; bar.sync 0; bra B; A: bar.sync 0; B:", "bar.sync 0;",
     Rule::barrier, "bar.sync 0"},
    {"barrier that a guard leaves lanes out of", "setp.lt.u32 %q1, %r13, 16; @%q1 bar.sync 0; bar.sync 1;",
     "setp.lt.u32 %q1, %r13, 32; @%q1 bar.sync 0; bar.sync 1;", Rule::barrier, "@%q1 bar.sync 0"},
    {"barrier that one warp does not reach", "setp.lt.u32 %q1, %t, 32; @%q1 bra A; bar.sync 0; A: bar.sync 1;",
     "setp.lt.u32 %q1, %t, 32; @%q1 bra A; A: bar.sync 0; bar.sync 1;", Rule::barrier, "bar.sync"},
    {"counts that differ", "setp.lt.u32 %q1, %t, 32; @%q1 bra A; bar.sync 1, 64; bra B; A: bar.sync 1, 32; B:",
     "setp.lt.u32 %q1, %t, 32; @%q1 bra A; bar.sync 1, 64; bra B; A: bar.sync 1, 64; B:", Rule::barrier, "bar.sync 1"},
    {"count of no whole warps", "bar.sync 1, 48;", "bar.sync 1, 64;", Rule::barrier, "bar.sync 1, 48"},
    {"more than the count", "bar.sync 1, 32; bar.sync 2, 96;", "bar.sync 1, 64; bar.sync 2, 64;", Rule::barrier, "bar.sync 2, 96"},
    {"barrier that there is not", "mov.u32 %r1, 16; bar.sync %r1;", "mov.u32 %r1, 15; bar.sync %r1;", Rule::barrier,
     "bar.sync %r1"},
    {"warp barrier that does not name its thread", "bar.warp.sync 0x7fffffff;", "bar.warp.sync 0xffffffff;", Rule::barrier,
     "bar.warp.sync"},
    {"shuffle from lanes that are elsewhere", "setp.lt.u32 %q1, %r13, 16; @%q1 bra A; shfl.sync.bfly.b32 %r1, %t, 16, 31, -1; A:",
     "shfl.sync.bfly.b32 %r1, %t, 16, 31, -1;", Rule::shuffle, "shfl.sync.bfly.b32"},
    {"shuffle from an unnamed lane", "setp.ge.u32 %q1, %r13, 16; @%q1 bra A; shfl.sync.idx.b32 %r1, %t, 20, 31, 0xffff; A:",
     "setp.ge.u32 %q1, %r13, 16; @%q1 bra A; shfl.sync.idx.b32 %r1, %t, 12, 31, 0xffff; A:", Rule::shuffle, "shfl.sync.idx.b32"},
    {"shuffle that does not name its thread", "shfl.sync.idx.b32 %r1, %t, 0, 31, 0xfffffffe;",
     "shfl.sync.idx.b32 %r1, %t, 0, 31, 0xffffffff;", Rule::shuffle, "shfl.sync.idx.b32"},
    {"shuffle from a lane that has ended", "setp.eq.u32 %q1, %r13, 3; @%q1 ret; shfl.sync.bfly.b32 %r1, %t, 1, 31, -1;",
     "setp.eq.u32 %q1, %r13, 32; @%q1 ret; shfl.sync.bfly.b32 %r1, %t, 1, 31, -1;", Rule::shuffle, "shfl.sync.bfly.b32"},
    {"vote without all that it names", "setp.lt.u32 %q1, %r13, 16; @%q1 vote.sync.any.pred %q2, %q1, -1; bar.sync 0;",
     "setp.lt.u32 %q1, %r13, 16; @%q1 vote.sync.any.pred %q2, %q1, 0xffff; bar.sync 0;", Rule::shuffle, "@%q1 vote.sync.any.pred"},
    {"race in a warp: write, then read", "st.shared.u32 [%r11], %t; ld.shared.u32 %r1, [%r12];",
     "st.shared.u32 [%r11], %t; bar.warp.sync -1; ld.shared.u32 %r1, [%r12];", Rule::race, "ld.shared.u32"},
    {"race in a warp: read, then write",
     "st.shared.u32 [%r11], %t; bar.sync 0; ld.shared.u32 %r1, [%r12]; st.shared.u32 [%r11], %r1;",
     "st.shared.u32 [%r11], %t; bar.sync 0; ld.shared.u32 %r1, [%r12]; bar.warp.sync -1; st.shared.u32 [%r11], %r1;", Rule::race,
     "st.shared.u32"},
    {"race of two writes", "st.shared.u32 [%r10], %t;", "setp.eq.u32 %q1, %t, 5; @%q1 st.shared.u32 [%r10], %t;", Rule::race,
     "st.shared.u32"},
    {"race between warps: write and read",
     "st.shared.u32 [%r11], %t; bar.sync 0; setp.lt.u32 %q1, %t, 32; @%q1 st.shared.u32 [%r11], %t; @!%q1 ld.shared.u32 %r1, "
     "[%r12+-128];",
     "st.shared.u32 [%r11], %t; bar.sync 0; setp.lt.u32 %q1, %t, 32; @%q1 st.shared.u32 [%r11], %t; bar.sync 0; @!%q1 "
     "ld.shared.u32 %r1, [%r12+-128];",
     Rule::race, nullptr},
    {"race between warps: a warp barrier is not enough",
     "st.shared.u32 [%r11], %t; bar.warp.sync -1; xor.b32 %r12, %t, 32; shl.b32 %r12, %r12, 2; add.u32 %r12, %r10, %r12; mov.u32 "
     "%r2, 0; "
     "setp.ge.u32 %q3, %t, 32; @%q3 st.shared.u32 [%r12], %r2;",
     "st.shared.u32 [%r11], %t; bar.sync 0; xor.b32 %r12, %t, 32; shl.b32 %r12, %r12, 2; add.u32 %r12, %r10, %r12; mov.u32 %r2, 0; "
     "setp.ge.u32 %q3, %t, 32; @%q3 st.shared.u32 [%r12], %r2;",
     Rule::race, nullptr},
    {"atomic beside a plain access",
     "setp.eq.u32 %q1, %t, 0; @%q1 st.shared.u32 [%r10], %t; bar.sync 0; @%q1 st.shared.u32 [%r10], %t; atom.shared.add.u32 "
     "%r1, [%r10], 1;",
     "setp.eq.u32 %q1, %t, 0; @%q1 st.shared.u32 [%r10], %t; bar.sync 0; atom.shared.add.u32 %r1, [%r10], 1;", Rule::race, nullptr},
    {"named barrier of other warps",
     "setp.lt.u32 %q1, %t, 32; @%q1 st.shared.u32 [%r11], %t; bar.sync 0; st.shared.u32 [%r11], %t; @%q1 bra A; bar.sync 1, 32; "
     "ld.shared.u32 %r1, [%r12+-128]; A: ",
     "setp.lt.u32 %q1, %t, 32; @%q1 st.shared.u32 [%r11], %t; bar.sync 0; st.shared.u32 [%r11], %t; @%q1 bra A; bar.sync 1, 64; "
     "ld.shared.u32 %r1, [%r12+-128]; bra B; A: bar.arrive 1, 64; B: ",
     Rule::race, nullptr},
};

TEST(MeetingFaults, EachKernelHasExactlyItsFaultAndItsTwinNone) {
  for (const Twins& twins : kTwins) {
    for (Order order : {Order::forward, Order::reverse, Order::random}) {
      LaunchOptions options;
      options.order = order;
      options.seed = 5;
      Bench bench;
      const auto run = [&](const char* body) {
        return bench.run(kernel_text(0, std::string(kShared) + body), {}, shape_of(1, 64), options);
      };
      const LaunchResult faulty = run(twins.faulty);
      EXPECT_EQ(unlike(faulty, twins.rule, twins.instruction == nullptr ? "" : twins.instruction), "") << twins.name;
      EXPECT_EQ(fault_text(run(twins.clean)), "") << twins.name;
    }
  }
}

TEST(MeetingFaults, ThreadsThatHaveEndedAreNotWaitedFor) {
  Bench bench;
  const std::string body = "setp.lt.u32 %q1, %t, 40; @%q1 bra A; ret; A: bar.sync 0;";
  EXPECT_EQ(fault_text(bench.run(kernel_text(0, body), {}, shape_of(1, 96))), "");
}

TEST(MeetingFaults, EndlessKernelsAreStopped) {
  Bench bench;
  LaunchOptions options;
  options.max_warp_instructions = 100'000;
  EXPECT_EQ(unlike(bench.run(kernel_text(0, "A: add.u32 %t, %t, 1; bra A;"), {}, shape_of(1, 32), options), Rule::progress, ""),
            "");
}

TEST(MeetingFaults, RacesCanBeLeftOut) {
  Bench bench;
  LaunchOptions options;
  options.checks.races = Check::off;
  EXPECT_EQ(fault_text(bench.run(kernel_text(0, std::string(kShared) + "st.shared.u32 [%r10], %t;"), {}, shape_of(1, 64), options)),
            "");
}

}  // namespace
}  // namespace headnorm::emulator::test
