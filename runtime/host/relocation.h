// Relocations of one machine's ELF objects: what each type writes. The rules of every machine are in every build; only those of
// the running one are ever applied to code that runs.
#pragma once

#include <cstdint>
#include <optional>

namespace headnorm::host {

struct Relocation {
  std::uint32_t type = 0;
  std::uint64_t place = 0;   // address of the bytes that it writes
  std::uint64_t symbol = 0;  // address of the symbol; of its slot in the global offset table, for a type that wants one
  std::int64_t addend = 0;
};

// One machine. Types that position independent kernels never have are unknown to it.
struct RelocationRules {
  std::uint16_t machine;  // e_machine
  const char* name;

  bool (*wants_got_slot)(std::uint32_t type);

  // Bytes that a relocation of this type writes: 4 or 8, or 0 for one that does nothing; empty for an unknown type.
  std::optional<int> (*width)(std::uint32_t type);

  // What those bytes, now `old`, become (the low ones, little endian); empty if the value does not fit. For known types of width
  // above 0.
  std::optional<std::uint64_t> (*encode)(const Relocation& relocation, std::uint64_t old);
};

extern const RelocationRules kX86Relocations;
extern const RelocationRules kAarch64Relocations;

// Of the processor that runs this.
inline const RelocationRules& native_relocations() {
#if defined(__aarch64__)
  return kAarch64Relocations;
#else
  return kX86Relocations;
#endif
}

// Whether `value` is one of `bits` bits with a sign.
constexpr bool fits_signed(std::uint64_t value, int bits) {
  const auto number = static_cast<std::int64_t>(value);
  return number >> (bits - 1) == 0 || number >> (bits - 1) == -1;
}

}  // namespace headnorm::host
