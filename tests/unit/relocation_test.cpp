// Relocations of every machine, value by value: instructions as an assembler writes them, and the first value that does not fit.
#include "runtime/host/relocation.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <vector>

namespace headnorm::host {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kPlace = 0x500000000000;
constexpr std::optional<std::uint64_t> kNoFit = std::nullopt;

struct Case {
  Relocation relocation;
  std::uint64_t old;
  std::optional<std::uint64_t> expected;
};

void check(const RelocationRules& rules, const std::vector<Case>& cases) {
  for (const auto& [relocation, old, expected] : cases) {
    ASSERT_GT(rules.width(relocation.type).value_or(0), 0) << relocation.type;
    auto value = rules.encode(relocation, old);
    const bool narrow = rules.width(relocation.type) == 4;
    if (value && narrow) *value &= 0xffffffff;
    EXPECT_EQ(value, expected) << "type " << relocation.type << " symbol " << std::hex << relocation.symbol << " addend "
                               << relocation.addend;
  }
}

// Expected values: what GNU as and objdump make of the instruction named.
TEST(Aarch64Relocation, SetsTheBitsOfTheInstruction) {
  check(kAarch64Relocations,
        {
            {{R_AARCH64_ADR_PREL_PG_HI21, kPlace + 0xabc, kPlace + 0x12345}, 0x90000001, 0xd0000081},  // adrp x1, 0x12000
            {{R_AARCH64_ADR_PREL_PG_HI21, kPlace + 0xabc, kPlace - 0x1000}, 0x90000001, 0xf0ffffe1},   // adrp x1, -0x1000
            {{R_AARCH64_ADR_PREL_PG_HI21, kPlace, kPlace, 0x3000}, 0xf0ffffe1, 0xf0000001},            // old bits go
            {{R_AARCH64_ADR_PREL_LO21, kPlace, kPlace + 5}, 0x10000002, 0x30000022},                   // adr x2, 5
            {{R_AARCH64_ADD_ABS_LO12_NC, kPlace, kPlace + 0x12345}, 0x91000021, 0x910d1421},           // add x1, x1, #0x345
            {{R_AARCH64_LDST8_ABS_LO12_NC, kPlace, kPlace + 0x12345}, 0x39400020, 0x394d1420},         // ldrb w0, [x1, #0x345]
            {{R_AARCH64_LDST16_ABS_LO12_NC, kPlace, kPlace + 0x12346}, 0x79400020, 0x79468c20},        // ldrh w0, [x1, #0x346]
            {{R_AARCH64_LDST32_ABS_LO12_NC, kPlace, kPlace + 0x12344}, 0xbd400020, 0xbd434420},        // ldr s0, [x1, #0x344]
            {{R_AARCH64_LDST64_ABS_LO12_NC, kPlace, kPlace + 0x12340, 8}, 0xfd400020, 0xfd41a420},     // ldr d0, [x1, #0x348]
            {{R_AARCH64_LDST128_ABS_LO12_NC, kPlace, kPlace + 0x12ff0}, 0x3dc00020, 0x3dc3fc20},       // ldr q0, [x1, #0xff0]
            {{R_AARCH64_LD64_GOT_LO12_NC, kPlace, kPlace + 0x12ff8}, 0xf9400021, 0xf947fc21},          // ldr x1, [x1, #0xff8]
            {{R_AARCH64_ADR_GOT_PAGE, kPlace, kPlace + 0x2008}, 0x90000001, 0xd0000001},               // adrp x1, 0x2000
            {{R_AARCH64_LD_PREL_LO19, kPlace, kPlace + 0x40}, 0x9c000000, 0x9c000200},                 // ldr q0, 0x40
            {{R_AARCH64_CALL26, kPlace, kPlace + 0x100}, 0x94000000, 0x94000040},                      // bl 0x100
            {{R_AARCH64_JUMP26, kPlace, kPlace - 4}, 0x14000000, 0x17ffffff},                          // b -4
            {{R_AARCH64_CONDBR19, kPlace, kPlace - 8}, 0x54000001, 0x54ffffc1},                        // b.ne -8
            {{R_AARCH64_TSTBR14, kPlace, kPlace + 0x10}, 0x36000000, 0x36000080},                      // tbz w0, #0, 0x10
            {{R_AARCH64_ABS64, kPlace, kPlace + 1, -1}, 99, kPlace},
            {{R_AARCH64_PREL64, kPlace, kPlace - 3}, 99, ~std::uint64_t{2}},
            {{R_AARCH64_PREL32, kPlace, kPlace - 3}, 99, 0xfffffffd},
            {{R_AARCH64_ABS32, kPlace, 0xfffffff0, 0xf}, 99, 0xffffffff},
            {{314, kPlace, kPlace + 0x44}, 99, 0x44},  // R_AARCH64_PLT32
        });
}

TEST(Aarch64Relocation, AValueThatDoesNotFitIsNone) {
  check(kAarch64Relocations,
        {
            {{R_AARCH64_ADR_PREL_PG_HI21, kPlace, kPlace + 4 * kGiB - 1}, 0x90000001, 0xf07fffe1},
            {{R_AARCH64_ADR_PREL_PG_HI21, kPlace, kPlace + 4 * kGiB}, 0x90000001, kNoFit},
            {{R_AARCH64_ADR_PREL_PG_HI21, kPlace, kPlace - 4 * kGiB}, 0x90000001, 0x90800001},
            {{R_AARCH64_ADR_PREL_PG_HI21, kPlace, kPlace - 4 * kGiB - 1}, 0x90000001, kNoFit},
            {{R_AARCH64_ADR_GOT_PAGE, kPlace, kPlace + 4 * kGiB}, 0x90000001, kNoFit},
            {{R_AARCH64_ADR_GOT_PAGE, kPlace, kPlace + 0x2008, 8}, 0x90000001, kNoFit},  // an addend is no slot's
            {{R_AARCH64_LD64_GOT_LO12_NC, kPlace, kPlace + 0x2008, 8}, 0xf9400021, kNoFit},
            {{R_AARCH64_ADR_PREL_LO21, kPlace, kPlace + kMiB}, 0x10000002, kNoFit},
            {{R_AARCH64_LDST16_ABS_LO12_NC, kPlace, kPlace + 1}, 0x79400020, kNoFit},
            {{R_AARCH64_LDST32_ABS_LO12_NC, kPlace, kPlace + 2}, 0xbd400020, kNoFit},
            {{R_AARCH64_LDST64_ABS_LO12_NC, kPlace, kPlace + 4}, 0xfd400020, kNoFit},
            {{R_AARCH64_LDST128_ABS_LO12_NC, kPlace, kPlace + 8}, 0x3dc00020, kNoFit},
            {{R_AARCH64_LD_PREL_LO19, kPlace, kPlace + kMiB}, 0x9c000000, kNoFit},
            {{R_AARCH64_LD_PREL_LO19, kPlace, kPlace + 2}, 0x9c000000, kNoFit},
            {{R_AARCH64_CALL26, kPlace, kPlace + 128 * kMiB - 4}, 0x94000000, 0x95ffffff},
            {{R_AARCH64_CALL26, kPlace, kPlace + 128 * kMiB}, 0x94000000, kNoFit},
            {{R_AARCH64_CALL26, kPlace, kPlace + 2}, 0x94000000, kNoFit},
            {{R_AARCH64_JUMP26, kPlace, kPlace - 128 * kMiB}, 0x14000000, 0x16000000},
            {{R_AARCH64_JUMP26, kPlace, kPlace - 128 * kMiB - 4}, 0x14000000, kNoFit},
            {{R_AARCH64_CONDBR19, kPlace, kPlace + kMiB}, 0x54000001, kNoFit},
            {{R_AARCH64_TSTBR14, kPlace, kPlace + 32768}, 0x36000000, kNoFit},
            {{R_AARCH64_PREL32, kPlace, kPlace + 4 * kGiB}, 0, kNoFit},
            {{R_AARCH64_ABS32, kPlace, kPlace}, 0, kNoFit},
            {{314, kPlace, kPlace + 2 * kGiB}, 0, kNoFit},
        });
}

TEST(X86Relocation, WritesTheValueOrNone) {
  check(kX86Relocations, {
                             {{R_X86_64_64, kPlace, kPlace, -4}, 0, kPlace - 4},
                             {{R_X86_64_PC64, kPlace, kPlace - 3}, 0, ~std::uint64_t{2}},
                             {{R_X86_64_PC32, kPlace, kPlace + 0x100, -4}, 0, 0xfc},
                             {{R_X86_64_PLT32, kPlace, kPlace - 2 * kGiB}, 0, 0x80000000},
                             {{R_X86_64_PLT32, kPlace, kPlace - 2 * kGiB - 1}, 0, kNoFit},
                             {{R_X86_64_GOTPCREL, kPlace, kPlace + 2 * kGiB}, 0, kNoFit},
                             {{R_X86_64_32, kPlace, 0xffffffff}, 0, 0xffffffff},
                             {{R_X86_64_32, kPlace, 4 * kGiB}, 0, kNoFit},
                             {{R_X86_64_32S, kPlace, 0x7fffffff}, 0, 0x7fffffff},
                             {{R_X86_64_32S, kPlace, 0x80000000}, 0, kNoFit},
                         });
}

TEST(Relocation, OthersAreUnknown) {
  EXPECT_EQ(kX86Relocations.width(R_X86_64_NONE), 0);
  EXPECT_EQ(kAarch64Relocations.width(R_AARCH64_NONE), 0);
  for (std::uint32_t type : {R_X86_64_COPY, R_X86_64_TLSGD, R_X86_64_IRELATIVE}) EXPECT_FALSE(kX86Relocations.width(type)) << type;
  for (std::uint32_t type : {R_AARCH64_COPY, R_AARCH64_MOVW_UABS_G0, R_AARCH64_TLSDESC_CALL, R_AARCH64_IRELATIVE})
    EXPECT_FALSE(kAarch64Relocations.width(type)) << type;
  EXPECT_TRUE(kX86Relocations.wants_got_slot(R_X86_64_GOTPCRELX));
  EXPECT_FALSE(kX86Relocations.wants_got_slot(R_X86_64_PC32));
  EXPECT_TRUE(kAarch64Relocations.wants_got_slot(R_AARCH64_ADR_GOT_PAGE));
  EXPECT_FALSE(kAarch64Relocations.wants_got_slot(R_AARCH64_ADR_PREL_PG_HI21));
}

}  // namespace
}  // namespace headnorm::host
