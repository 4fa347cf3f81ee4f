// A kernel decoded for execution: one Operation an instruction, operands as slots of a warp's register file.
//
// A slot holds the 32 lanes of one register: 32-bit words for widths up to 32 bits (narrower ones zero-extended), 64-bit words
// above, one mask word for a predicate. Constants and special registers are slots too, filled before a warp starts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/counters.h"
#include "emulator/ptx/module.h"

namespace headnorm::emulator {

inline constexpr std::uint32_t kLanes = 32, kFullMask = 0xffffffffu;
inline constexpr std::size_t kSlotBytes = kLanes * 8;

using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = ~Slot{0};

// What the warp does after an operation.
enum class Step : std::uint8_t {
  advance,   // the lanes go on to the next instruction
  jump,      // the operation has set where the lanes go on
  exit,      // the lanes have ended
  converge,  // the lanes wait here until more lanes of their warp arrive; then the operation runs again
  wait,      // the lanes have arrived at a barrier and go on behind it when it completes
  poll,      // as advance, but what the lanes asked for is not there yet: others should run
  fault,
};

struct Context;
struct Operation;
using Run = Step (*)(Context&, const Operation&, std::uint32_t mask);

struct SlotRange {
  std::uint32_t first = 0, count = 0;  // in Kernel::slots
};

struct AddressOperand {
  Slot base = kNoSlot;
  bool is_wide = false;  // the base has 64 bits
  std::int64_t offset = 0;
};

struct Operation {
  Run run = nullptr, inner = nullptr;  // inner: of an operation made of two
  Slot guard = kNoSlot;
  bool is_guard_negated = false;
  bool is_collective = false;  // lanes wait for each other: those that the guard leaves out go on by themselves
  Kind kind = Kind::other;
  ptx::Space space = ptx::Space::generic;
  std::uint8_t element_bytes = 0, elements = 1;  // of an access to memory
  std::array<std::uint8_t, 4> options{};         // their meaning is the operation's own
  Slot to = kNoSlot, also_to = kNoSlot;
  std::array<Slot, 5> from{kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  std::array<AddressOperand, 3> addresses;
  std::uint64_t immediate = 0;
  std::uint32_t target = 0;  // of a branch
  SlotRange list;            // elements of a vector
  SlotRange reads, writes;   // registers that must be defined before, and are after
  std::uint64_t used_bytes = ~std::uint64_t{0};
  std::uint32_t source = 0;  // number of the ptx::Instruction
};

// A special register that has to be filled in.
struct SpecialSlot {
  std::string name;
  Slot slot = kNoSlot;
};

struct ConstantSlot {
  std::uint64_t value = 0;
  Slot slot = kNoSlot;
  bool is_wide = false;
};

struct Parameter {
  std::uint64_t offset = 0, bytes = 0, align = 1;
};

struct SharedArray {
  std::uint64_t offset = 0, bytes = 0;  // in the emulated shared memory, which has red zones between arrays
};

struct Kernel {
  ptx::Kernel source;
  std::vector<Operation> code;
  std::vector<Slot> slots;                          // that ranges point into
  std::vector<std::vector<std::uint32_t>> targets;  // of brx.idx, by Operation::immediate
  Slot slot_count = 0;
  std::vector<SpecialSlot> specials;
  std::vector<ConstantSlot> constants;
  std::vector<Parameter> parameters;
  std::uint64_t parameter_bytes = 0;
  std::vector<SharedArray> shared_arrays;  // static ones
  std::uint64_t shared_bytes = 0;          // of static arrays, as the hardware lays them out
  std::uint64_t dynamic_shared_at = 0;     // emulated offset
  std::uint64_t dynamic_shared_align = 16;
  std::uint64_t local_bytes = 0;  // a thread
};

}  // namespace headnorm::emulator
