// Types, formulas and checks: ELF for the Arm 64-bit Architecture (AAELF64), static relocations.
#include <elf.h>

#include "runtime/host/relocation.h"

namespace headnorm::host {
namespace {

constexpr std::uint32_t kPlt32 = 314;  // R_AARCH64_PLT32, which elf.h does not have

// Bits of an instruction that a relocation sets.
constexpr std::uint64_t field(std::uint64_t value, int bits, int at) { return (value & ((std::uint64_t{1} << bits) - 1)) << at; }
constexpr std::uint64_t replace(std::uint64_t old, std::uint64_t value, int bits, int at) {
  return (old & ~field(~std::uint64_t{0}, bits, at)) | field(value, bits, at);
}

constexpr std::uint64_t page_of(std::uint64_t address) { return address & ~std::uint64_t{0xfff}; }

// ADR and ADRP: the low two bits of the immediate stand apart.
std::optional<std::uint64_t> address_immediate(std::uint64_t old, std::uint64_t value) {
  if (!fits_signed(value, 21)) return std::nullopt;
  return replace(replace(old, value, 2, 29), value >> 2, 19, 5);
}

// A distance in instructions, `bits` wide.
std::optional<std::uint64_t> branch_distance(std::uint64_t old, std::uint64_t distance, int bits, int at) {
  if (distance % 4 != 0 || !fits_signed(distance, bits + 2)) return std::nullopt;
  return replace(old, distance >> 2, bits, at);
}

// The low 12 bits of an address, in units of 2^scale bytes: the upper ones come from an ADRP.
std::optional<std::uint64_t> low_bits(std::uint64_t old, std::uint64_t address, int scale) {
  const std::uint64_t offset = address & 0xfff;
  if (offset % (std::uint64_t{1} << scale) != 0) return std::nullopt;
  return replace(old, offset >> scale, 12, 10);
}

std::optional<std::uint64_t> word32(std::uint64_t value) {  // signed or not
  return fits_signed(value, 32) || value >> 32 == 0 ? std::optional(value) : std::nullopt;
}

bool wants_got_slot(std::uint32_t type) { return type == R_AARCH64_ADR_GOT_PAGE || type == R_AARCH64_LD64_GOT_LO12_NC; }

std::optional<int> width(std::uint32_t type) {
  switch (type) {
    case R_AARCH64_NONE:
      return 0;
    case R_AARCH64_ABS64:
    case R_AARCH64_PREL64:
      return 8;
    case R_AARCH64_ABS32:
    case R_AARCH64_PREL32:
    case kPlt32:
    case R_AARCH64_LD_PREL_LO19:
    case R_AARCH64_ADR_PREL_LO21:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC:
    case R_AARCH64_TSTBR14:
    case R_AARCH64_CONDBR19:
    case R_AARCH64_JUMP26:
    case R_AARCH64_CALL26:
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC:
      return 4;
    default:
      return std::nullopt;
  }
}

std::optional<std::uint64_t> encode(const Relocation& r, std::uint64_t old) {
  const std::uint64_t absolute = r.symbol + static_cast<std::uint64_t>(r.addend), relative = absolute - r.place;
  const auto pages = static_cast<std::uint64_t>(static_cast<std::int64_t>(page_of(absolute) - page_of(r.place)) >> 12);
  switch (r.type) {
    case R_AARCH64_ABS64:
      return absolute;
    case R_AARCH64_PREL64:
      return relative;
    case R_AARCH64_ABS32:
      return word32(absolute);
    case R_AARCH64_PREL32:
      return word32(relative);
    case kPlt32:
      return fits_signed(relative, 32) ? std::optional(relative) : std::nullopt;
    case R_AARCH64_ADR_PREL_LO21:
      return address_immediate(old, relative);
    case R_AARCH64_ADR_PREL_PG_HI21:
      return address_immediate(old, pages);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return low_bits(old, absolute, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return low_bits(old, absolute, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return low_bits(old, absolute, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return low_bits(old, absolute, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return low_bits(old, absolute, 4);
    case R_AARCH64_LD_PREL_LO19:
    case R_AARCH64_CONDBR19:
      return branch_distance(old, relative, 19, 5);
    case R_AARCH64_TSTBR14:
      return branch_distance(old, relative, 14, 5);
    case R_AARCH64_JUMP26:
    case R_AARCH64_CALL26:
      return branch_distance(old, relative, 26, 0);
    // The addend would be the symbol's, whose slot holds no such address.
    case R_AARCH64_ADR_GOT_PAGE:
      return r.addend == 0 ? address_immediate(old, pages) : std::nullopt;
    default:
      return r.addend == 0 ? low_bits(old, absolute, 3) : std::nullopt;
  }
}

}  // namespace

const RelocationRules kAarch64Relocations = {EM_AARCH64, "aarch64", wants_got_slot, width, encode};

}  // namespace headnorm::host
