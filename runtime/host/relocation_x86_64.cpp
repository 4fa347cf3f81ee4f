#include <elf.h>

#include "runtime/host/relocation.h"

namespace headnorm::host {
namespace {

bool wants_got_slot(std::uint32_t type) {
  return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
}

std::optional<int> width(std::uint32_t type) {
  switch (type) {
    case R_X86_64_NONE:
      return 0;
    case R_X86_64_64:
    case R_X86_64_PC64:
      return 8;
    case R_X86_64_32:
    case R_X86_64_32S:
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return 4;
    default:
      return std::nullopt;
  }
}

std::optional<std::uint64_t> encode(const Relocation& r, std::uint64_t) {
  const std::uint64_t absolute = r.symbol + static_cast<std::uint64_t>(r.addend), relative = absolute - r.place;
  switch (r.type) {
    case R_X86_64_64:
      return absolute;
    case R_X86_64_PC64:
      return relative;
    case R_X86_64_32:
      return absolute >> 32 == 0 ? std::optional(absolute) : std::nullopt;
    case R_X86_64_32S:
      return fits_signed(absolute, 32) ? std::optional(absolute) : std::nullopt;
    default:
      return fits_signed(relative, 32) ? std::optional(relative) : std::nullopt;
  }
}

}  // namespace

const RelocationRules kX86Relocations = {EM_X86_64, "x86-64", wants_got_slot, width, encode};

}  // namespace headnorm::host
