// PtxMachine: runs the PTX that this project generates, a block at a time on the CPU, and reports faults that a GPU may hide.
//
// Knows the instructions that our kernels use and refuses all others. Arithmetic is as the PTX ISA defines it, rsqrt.approx within
// its error (correctly rounded). A fault is a text: access outside the given memory or not aligned to its full width, a shuffle or
// barrier that some thread does not reach, shared memory read before it is written, or in the interval in which it was written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace headnorm::test {

struct GlobalRange {
  std::uint64_t begin = 0, end = 0;
  bool is_written = false;  // stores are allowed
};

enum class ThreadOrder : std::uint8_t { forward, backward };  // in which the threads of a block take their turns

struct PtxOperand {
  enum class Kind : std::uint8_t { reg, immediate, thread, block, list } kind = Kind::immediate;
  std::uint64_t value = 0;       // register number, or immediate; of an address: the offset
  int base = -1;                 // address: register that the offset is added to
  std::vector<PtxOperand> list;  // {a, b}
};

struct PtxInstruction {
  std::string text;    // for messages
  std::string opcode;  // "ld.global.v4.b32"
  int guard = -1;      // register of the predicate
  bool negated = false;
  std::vector<PtxOperand> operands;
  std::size_t target = 0;  // bra
};

class PtxMachine {
 public:
  // Of a text with one kernel. Error: internal, for an instruction or syntax that the machine does not know.
  static Result<PtxMachine> parse(std::string_view ptx);

  // Runs blocks [first, last) with these 8-byte parameters; "" or the first fault.
  std::string run(const std::vector<std::uint64_t>& parameters, std::int64_t first, std::int64_t last,
                  const std::vector<GlobalRange>& memory, ThreadOrder order) const;

  int block_threads() const { return block_threads_; }
  int shared_bytes() const { return shared_bytes_; }
  // Instructions in the text whose opcode begins with `prefix`.
  int count(std::string_view prefix) const;

 private:
  Result<void> parse_line(std::string_view line);
  Result<PtxOperand> parse_operand(std::string_view text);
  int register_number(std::string_view name);

  std::vector<PtxInstruction> code_;
  std::map<std::string, int, std::less<>> registers_;
  std::map<std::string, std::size_t, std::less<>> labels_;
  std::map<std::string, std::uint64_t, std::less<>> shared_;  // address of each array
  std::vector<std::pair<std::size_t, std::string>> jumps_;    // label of each bra
  int block_threads_ = 0, shared_bytes_ = 0;
};

}  // namespace headnorm::test
