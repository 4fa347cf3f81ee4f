// PtxMachine: runs the PTX that this project generates, a block at a time on the CPU, and reports faults that a GPU may hide.
//
// Knows the instructions that our kernels use and refuses all others. Arithmetic is as the PTX ISA defines it, rsqrt.approx within
// its error (correctly rounded). A fault is a text: access outside the given memory or not aligned to its full width, a shuffle or
// barrier that some thread does not reach, shared memory read before it is written, or used by two threads, one of which writes,
// without a barrier between.
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

// In which the warps of a block run from barrier to barrier, and the threads of a warp from shuffle to shuffle.
enum class ThreadOrder : std::uint8_t { forward, backward, shuffled };

struct PtxLaunch {
  std::int64_t grid = 0;         // blocks
  int dynamic_shared_bytes = 0;  // of each
};

struct PtxOperand {
  enum class Kind : std::uint8_t { reg, immediate, thread, block, grid, dynamic, list } kind = Kind::immediate;
  std::uint64_t value = 0;       // register number, or immediate; of an address: the offset (dynamic: behind the static arrays)
  int base = -1;                 // address: register that the offset is added to
  std::vector<PtxOperand> list;  // {a, b}
};

struct PtxInstruction {
  enum class Action : std::uint8_t { compute, split, load_parameter, load, store, jump, shuffle, barrier, leave };
  using Function = std::uint64_t (*)(const std::uint64_t*);

  std::string text;    // for messages
  std::string opcode;  // "ld.global.v4.b32"
  Action action = Action::compute;
  Function function = nullptr;        // compute
  std::size_t width = 0, vector = 0;  // bytes of the opcode's type, and elements of its vector
  bool is_shared = false;
  int guard = -1;  // register of the predicate
  bool negated = false;
  std::vector<PtxOperand> operands;
  std::size_t target = 0;  // bra
};

class PtxMachine {
 public:
  // Of a text with one kernel. Error: internal, for an instruction or syntax that the machine does not know.
  static Result<PtxMachine> parse(std::string_view ptx);

  // Runs a launch, or its blocks [first, last) alone, with these 8-byte parameters; "" or the first fault.
  std::string run(const PtxLaunch& launch, const std::vector<std::uint64_t>& parameters, const std::vector<GlobalRange>& memory,
                  ThreadOrder order) const;
  std::string run_blocks(std::int64_t first, std::int64_t last, const PtxLaunch& launch,
                         const std::vector<std::uint64_t>& parameters, const std::vector<GlobalRange>& memory,
                         ThreadOrder order) const;

  int block_threads() const { return block_threads_; }
  int shared_bytes() const { return shared_bytes_; }
  // Instructions in the text whose opcode begins with `prefix`.
  int count(std::string_view prefix) const;

 private:
  Result<void> parse_line(std::string_view line);
  Result<PtxOperand> parse_operand(std::string_view text);
  void classify(PtxInstruction& instruction) const;
  int register_number(std::string_view name);

  std::vector<PtxInstruction> code_;
  std::map<std::string, int, std::less<>> registers_;
  std::map<std::string, std::size_t, std::less<>> labels_;
  std::map<std::string, std::uint64_t, std::less<>> shared_;  // address of each array
  std::vector<std::pair<std::size_t, std::string>> jumps_;    // label of each bra
  int block_threads_ = 0, shared_bytes_ = 0;
  std::string dynamic_array_;  // name of the array behind all others
};

}  // namespace headnorm::test
