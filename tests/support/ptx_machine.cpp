#include "tests/support/ptx_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "core/dtype.h"
#include "core/text.h"

namespace headnorm::test {
namespace {

float f32(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
std::uint64_t bits(float value) { return std::isnan(value) ? 0x7fffffffu : std::bit_cast<std::uint32_t>(value); }
std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
float f16(std::uint64_t value) { return float_from_f16(static_cast<std::uint16_t>(value)); }

std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{a} * Wide{b} >> 64);
}

float minimum(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b); }
float maximum(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b); }

using Arguments = const std::uint64_t*;
using Pure = PtxInstruction::Function;

// Instructions that make one register from others.
const std::map<std::string, Pure, std::less<>>& pure_instructions() {
  static const std::map<std::string, Pure, std::less<>> kTable = {
      {"mov.u32", [](Arguments a) { return std::uint64_t{u32(a[0])}; }},
      {"mov.b32", [](Arguments a) { return std::uint64_t{u32(a[0])}; }},
      {"mov.b64", [](Arguments a) { return a[0]; }},
      {"mov.b16", [](Arguments a) { return a[0] & 0xffff; }},
      {"add.s32", [](Arguments a) { return std::uint64_t{u32(a[0] + a[1])}; }},
      {"add.s16", [](Arguments a) { return (a[0] + a[1]) & 0xffff; }},
      {"sub.s16", [](Arguments a) { return (a[0] - a[1]) & 0xffff; }},
      {"mul.lo.s16", [](Arguments a) { return (a[0] * a[1]) & 0xffff; }},
      {"mul.hi.u16", [](Arguments a) { return ((a[0] & 0xffff) * (a[1] & 0xffff)) >> 16; }},
      {"add.s64", [](Arguments a) { return a[0] + a[1]; }},
      {"sub.s32", [](Arguments a) { return std::uint64_t{u32(a[0] - a[1])}; }},
      {"sub.s64", [](Arguments a) { return a[0] - a[1]; }},
      {"mul.lo.s32", [](Arguments a) { return std::uint64_t{u32(a[0] * a[1])}; }},
      {"mul.lo.s64", [](Arguments a) { return a[0] * a[1]; }},
      {"mad.lo.s32", [](Arguments a) { return std::uint64_t{u32(a[0] * a[1] + a[2])}; }},
      {"mad.lo.s64", [](Arguments a) { return a[0] * a[1] + a[2]; }},
      {"mul.wide.u16", [](Arguments a) { return (a[0] & 0xffff) * (a[1] & 0xffff); }},
      {"mad.wide.u16", [](Arguments a) { return std::uint64_t{u32((a[0] & 0xffff) * (a[1] & 0xffff) + a[2])}; }},
      {"mul.wide.u32", [](Arguments a) { return std::uint64_t{u32(a[0])} * u32(a[1]); }},
      {"mad.wide.u32", [](Arguments a) { return std::uint64_t{u32(a[0])} * u32(a[1]) + a[2]; }},
      {"mul.hi.u32", [](Arguments a) { return (std::uint64_t{u32(a[0])} * u32(a[1])) >> 32; }},
      {"mul.hi.u64", [](Arguments a) { return high_product(a[0], a[1]); }},
      {"min.u32", [](Arguments a) { return std::uint64_t{std::min(u32(a[0]), u32(a[1]))}; }},
      {"max.u32", [](Arguments a) { return std::uint64_t{std::max(u32(a[0]), u32(a[1]))}; }},
      {"min.u64", [](Arguments a) { return std::min(a[0], a[1]); }},
      {"shl.b32", [](Arguments a) { return std::uint64_t{a[1] > 31 ? 0 : u32(a[0]) << a[1]}; }},
      {"shl.b64", [](Arguments a) { return a[1] > 63 ? 0 : a[0] << a[1]; }},
      {"shr.u16", [](Arguments a) { return a[1] > 15 ? 0 : (a[0] & 0xffff) >> a[1]; }},
      {"shr.u32", [](Arguments a) { return std::uint64_t{a[1] > 31 ? 0 : u32(a[0]) >> a[1]}; }},
      {"shr.u64", [](Arguments a) { return a[1] > 63 ? 0 : a[0] >> a[1]; }},
      {"bfe.u32", [](Arguments a) { return std::uint64_t{(u32(a[0]) >> a[1]) & ((std::uint64_t{1} << a[2]) - 1)}; }},
      {"add.s16", [](Arguments a) { return (a[0] + a[1]) & 0xffff; }},
      {"sub.s16", [](Arguments a) { return (a[0] - a[1]) & 0xffff; }},
      {"mul.lo.s16", [](Arguments a) { return (a[0] * a[1]) & 0xffff; }},
      {"mul.wide.u16", [](Arguments a) { return (a[0] & 0xffff) * (a[1] & 0xffff); }},
      {"mul.hi.u16", [](Arguments a) { return ((a[0] & 0xffff) * (a[1] & 0xffff)) >> 16; }},
      {"shl.b16", [](Arguments a) { return a[1] > 15 ? 0 : (a[0] << a[1]) & 0xffff; }},
      {"shr.u16", [](Arguments a) { return a[1] > 15 ? 0 : (a[0] & 0xffff) >> a[1]; }},
      {"cvt.u64.u16", [](Arguments a) { return a[0] & 0xffff; }},
      {"and.b16", [](Arguments a) { return a[0] & a[1] & 0xffff; }},
      {"or.b16", [](Arguments a) { return (a[0] | a[1]) & 0xffff; }},
      {"xor.b16", [](Arguments a) { return (a[0] ^ a[1]) & 0xffff; }},
      {"selp.b16", [](Arguments a) { return (a[2] != 0 ? a[0] : a[1]) & 0xffff; }},
      {"setp.eq.b16", [](Arguments a) { return std::uint64_t{((a[0] ^ a[1]) & 0xffff) == 0}; }},
      {"setp.ne.b16", [](Arguments a) { return std::uint64_t{((a[0] ^ a[1]) & 0xffff) != 0}; }},
      {"and.b32", [](Arguments a) { return std::uint64_t{u32(a[0] & a[1])}; }},
      {"and.b64", [](Arguments a) { return a[0] & a[1]; }},
      {"or.b32", [](Arguments a) { return std::uint64_t{u32(a[0] | a[1])}; }},
      {"or.b64", [](Arguments a) { return a[0] | a[1]; }},
      {"xor.b32", [](Arguments a) { return std::uint64_t{u32(a[0] ^ a[1])}; }},
      {"xor.b64", [](Arguments a) { return a[0] ^ a[1]; }},
      {"and.pred", [](Arguments a) { return a[0] & a[1]; }},
      {"or.pred", [](Arguments a) { return a[0] | a[1]; }},
      {"not.pred", [](Arguments a) { return a[0] ^ 1; }},
      {"selp.f32", [](Arguments a) { return a[2] != 0 ? a[0] : a[1]; }},
      {"selp.b32", [](Arguments a) { return a[2] != 0 ? a[0] : a[1]; }},
      {"selp.b64", [](Arguments a) { return a[2] != 0 ? a[0] : a[1]; }},
      {"setp.eq.b32", [](Arguments a) { return std::uint64_t{u32(a[0]) == u32(a[1])}; }},
      {"setp.ne.b32", [](Arguments a) { return std::uint64_t{u32(a[0]) != u32(a[1])}; }},
      {"setp.lt.u32", [](Arguments a) { return std::uint64_t{u32(a[0]) < u32(a[1])}; }},
      {"setp.le.u32", [](Arguments a) { return std::uint64_t{u32(a[0]) <= u32(a[1])}; }},
      {"setp.gt.u32", [](Arguments a) { return std::uint64_t{u32(a[0]) > u32(a[1])}; }},
      {"setp.ge.u32", [](Arguments a) { return std::uint64_t{u32(a[0]) >= u32(a[1])}; }},
      {"setp.eq.b64", [](Arguments a) { return std::uint64_t{a[0] == a[1]}; }},
      {"setp.ne.b64", [](Arguments a) { return std::uint64_t{a[0] != a[1]}; }},
      {"setp.lt.u64", [](Arguments a) { return std::uint64_t{a[0] < a[1]}; }},
      {"setp.le.u64", [](Arguments a) { return std::uint64_t{a[0] <= a[1]}; }},
      {"setp.gt.u64", [](Arguments a) { return std::uint64_t{a[0] > a[1]}; }},
      {"setp.ge.u64", [](Arguments a) { return std::uint64_t{a[0] >= a[1]}; }},
      {"cvt.u64.u32", [](Arguments a) { return std::uint64_t{u32(a[0])}; }},
      {"cvt.u32.u64", [](Arguments a) { return std::uint64_t{u32(a[0])}; }},
      {"cvt.u32.u16", [](Arguments a) { return a[0] & 0xffff; }},
      {"cvt.u16.u32", [](Arguments a) { return a[0] & 0xffff; }},
      {"cvt.f32.f16", [](Arguments a) { return bits(f16(a[0])); }},
      {"cvt.rn.f16.f32", [](Arguments a) { return std::uint64_t{f16_from_float(f32(a[0]))}; }},
      {"cvt.rn.bf16.f32", [](Arguments a) { return std::uint64_t{bf16_from_float(f32(a[0]))}; }},
      {"cvt.rn.f16x2.f32", [](Arguments a) { return std::uint64_t{f16_from_float(f32(a[0]))} << 16 | f16_from_float(f32(a[1])); }},
      {"cvt.rn.bf16x2.f32",
       [](Arguments a) { return std::uint64_t{bf16_from_float(f32(a[0]))} << 16 | bf16_from_float(f32(a[1])); }},
      {"add.rn.f32", [](Arguments a) { return bits(f32(a[0]) + f32(a[1])); }},
      {"sub.rn.f32", [](Arguments a) { return bits(f32(a[0]) - f32(a[1])); }},
      {"mul.rn.f32", [](Arguments a) { return bits(f32(a[0]) * f32(a[1])); }},
      {"div.rn.f32", [](Arguments a) { return bits(f32(a[0]) / f32(a[1])); }},
      {"rcp.rn.f32", [](Arguments a) { return bits(1.0f / f32(a[0])); }},
      {"fma.rn.f32", [](Arguments a) { return bits(std::fma(f32(a[0]), f32(a[1]), f32(a[2]))); }},
      {"add.rn.f16", [](Arguments a) { return std::uint64_t{f16_from_float(f16(a[0]) + f16(a[1]))}; }},
      {"mul.rn.f16", [](Arguments a) { return std::uint64_t{f16_from_float(f16(a[0]) * f16(a[1]))}; }},
      {"add.rn.f32.f16", [](Arguments a) { return bits(f16(a[0]) + f32(a[1])); }},
      {"sub.rn.f32.f16", [](Arguments a) { return bits(f16(a[0]) - f32(a[1])); }},
      {"fma.rn.f32.f16", [](Arguments a) { return bits(std::fma(f16(a[0]), f16(a[1]), f32(a[2]))); }},
      {"neg.f32", [](Arguments a) { return bits(-f32(a[0])); }},
      {"abs.f16", [](Arguments a) { return a[0] & 0x7fff; }},
      {"abs.f32", [](Arguments a) { return bits(std::fabs(f32(a[0]))); }},
      {"max.f32", [](Arguments a) { return bits(std::fmax(f32(a[0]), f32(a[1]))); }},  // the number, if one is NaN
      {"min.NaN.f32", [](Arguments a) { return bits(minimum(f32(a[0]), f32(a[1]))); }},
      {"max.NaN.f32", [](Arguments a) { return bits(maximum(f32(a[0]), f32(a[1]))); }},
      {"rsqrt.approx.f32", [](Arguments a) { return bits(static_cast<float>(1.0 / std::sqrt(static_cast<double>(f32(a[0]))))); }},
  };
  return kTable;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? "" : text.substr(begin, end - begin + 1);
}

// "a, {b, c}, [d+4]" at its outer commas.
std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '{' || text[i] == '[')) ++depth;
    if (i < text.size() && (text[i] == '}' || text[i] == ']')) --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    const std::string_view part = trimmed(text.substr(begin, i - begin));
    if (!part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

Error unknown(std::string_view text) { return internal_error(fmt::format("PTX machine: '{}' is not known", text)); }

// Bytes of the last type in an opcode, and elements of its vector.
std::size_t width_of(std::string_view opcode) { return opcode.ends_with("16") ? 2 : opcode.ends_with("32") ? 4 : 8; }
std::size_t vector_of(std::string_view opcode) {
  if (opcode.find(".v8.") != std::string_view::npos) return 8;
  if (opcode.find(".v4.") != std::string_view::npos) return 4;
  return opcode.find(".v2.") != std::string_view::npos ? 2 : 1;
}

bool is_control(std::string_view opcode) {
  return opcode == "ret" || opcode.starts_with("bra") || opcode.starts_with("ld.") || opcode.starts_with("st.") ||
         opcode == "shfl.sync.bfly.b32" || opcode == "bar.sync";
}

using Action = PtxInstruction::Action;

// One block while it runs.
class Block {
 public:
  Block(const std::vector<PtxInstruction>& code, int threads, std::size_t registers, std::size_t shared_bytes,
        const std::vector<std::uint64_t>& parameters, std::int64_t index, const PtxLaunch& launch,
        const std::vector<GlobalRange>& memory)
      : code_(code),
        parameters_(parameters),
        index_(static_cast<std::uint64_t>(index)),
        grid_(static_cast<std::uint64_t>(launch.grid)),
        static_bytes_((shared_bytes + 15) / 16 * 16),
        memory_(memory) {
    threads_.resize(static_cast<std::size_t>(threads));
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      threads_[i].index = i;
      threads_[i].registers.resize(registers);
      threads_[i].is_set.resize(registers);
    }
    shared_.resize(static_bytes_ + static_cast<std::size_t>(launch.dynamic_shared_bytes));
    uses_.resize(shared_.size() / kCellBytes);
  }

  std::string run(ThreadOrder order) {
    std::vector<std::size_t> warps(threads_.size() / 32);
    std::iota(warps.begin(), warps.end(), std::size_t{0});
    if (order == ThreadOrder::backward) std::reverse(warps.begin(), warps.end());
    std::mt19937_64 random(index_);
    while (fault_.empty() && !std::all_of(threads_.begin(), threads_.end(), [](const Thread& t) { return t.is_done; })) {
      if (order == ThreadOrder::shuffled) std::shuffle(warps.begin(), warps.end(), random);
      for (std::size_t warp : warps) run_warp(32 * warp, order);
      if (fault_.empty()) barrier();
    }
    return fault_;
  }

 private:
  struct Thread {
    std::size_t index = 0, at = 0;
    bool is_done = false;
    std::vector<std::uint64_t> registers;
    std::vector<char> is_set;
  };
  // Of a cell of shared memory: who wrote and who read it, and in which interval between barriers (-1: never).
  struct Use {
    std::size_t writer = 0, reader = 0;
    int written = -1, read = -1;
  };
  static constexpr std::size_t kCellBytes = 2, kSeveral = ~std::size_t{0};

  void fail(const PtxInstruction& instruction, const Thread& thread, std::string_view what) {
    if (fault_.empty()) fault_ = fmt::format("block {} thread {}: {}: {}", index_, thread.index, what, instruction.text);
  }

  std::uint64_t read(const Thread& thread, std::size_t number) {
    if (!thread.is_set[number]) fail(code_[thread.at], thread, "reads a register that was never set");
    return thread.registers[number];
  }

  static void set(Thread& thread, std::size_t number, std::uint64_t value) {
    thread.registers[number] = value;
    thread.is_set[number] = true;
  }

  std::uint64_t value(const Thread& thread, const PtxOperand& operand) {
    switch (operand.kind) {
      case PtxOperand::Kind::reg:
        return read(thread, operand.value);
      case PtxOperand::Kind::thread:
        return thread.index;
      case PtxOperand::Kind::block:
        return index_;
      case PtxOperand::Kind::grid:
        return grid_;
      case PtxOperand::Kind::dynamic:
        return static_bytes_ + operand.value;
      case PtxOperand::Kind::immediate:
      case PtxOperand::Kind::list:
        break;
    }
    return operand.value + (operand.base < 0 ? 0 : read(thread, static_cast<std::size_t>(operand.base)));
  }

  bool is_skipped(const Thread& thread, const PtxInstruction& instruction) {
    if (instruction.guard < 0) return false;
    return (read(thread, static_cast<std::size_t>(instruction.guard)) != 0) == instruction.negated;
  }

  // To the next barrier, or to its end.
  void run_warp(std::size_t first, ThreadOrder order) {
    while (fault_.empty()) {
      for (std::size_t i = 0; i < 32; ++i) advance(threads_[first + (order == ThreadOrder::backward ? 31 - i : i)]);
      if (threads_[first].is_done || code_[threads_[first].at].action != Action::shuffle) return;
      shuffle(first);
    }
  }

  // To the next shuffle or barrier, or to its end.
  void advance(Thread& thread) {
    while (!thread.is_done && fault_.empty()) {
      const PtxInstruction& instruction = code_[thread.at];
      if (instruction.action == Action::shuffle || instruction.action == Action::barrier) return;
      const bool is_skip = is_skipped(thread, instruction);
      if (!is_skip) execute(thread, instruction);
      if (is_skip || instruction.action != Action::jump) ++thread.at;
      if (thread.at >= code_.size()) thread.is_done = true;
    }
  }

  void execute(Thread& thread, const PtxInstruction& instruction) {
    switch (instruction.action) {
      case Action::leave:
        thread.is_done = true;
        return;
      case Action::jump:
        thread.at = instruction.target;
        return;
      case Action::load_parameter:
        set(thread, instruction.operands[0].value, parameters_[instruction.operands[1].value]);
        return;
      case Action::load:
        load(thread, instruction);
        return;
      case Action::store:
        store(thread, instruction);
        return;
      case Action::split:
        split(thread, instruction);
        return;
      case Action::compute:
        compute(thread, instruction);
        return;
      case Action::shuffle:
      case Action::barrier:
        return;
    }
  }

  // mov.b32 {a, b}, c
  void split(Thread& thread, const PtxInstruction& instruction) {
    const std::vector<PtxOperand>& parts = instruction.operands[0].list;
    const std::uint64_t whole = value(thread, instruction.operands[1]);
    const std::size_t width = 8 * instruction.width / parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i)
      set(thread, parts[i].value, (whole >> (width * i)) & ((std::uint64_t{1} << width) - 1));
  }

  void compute(Thread& thread, const PtxInstruction& instruction) {
    std::uint64_t arguments[3] = {0, 0, 0};
    for (std::size_t i = 1; i < instruction.operands.size(); ++i) arguments[i - 1] = gather(thread, instruction, i);
    set(thread, instruction.operands[0].value, instruction.function(arguments));
  }

  // An operand, or the number that {a, b} make.
  std::uint64_t gather(const Thread& thread, const PtxInstruction& instruction, std::size_t i) {
    const PtxOperand& operand = instruction.operands[i];
    if (operand.kind != PtxOperand::Kind::list) return value(thread, operand);
    const std::size_t width = 8 * instruction.width / operand.list.size();
    std::uint64_t whole = 0;
    for (std::size_t k = 0; k < operand.list.size(); ++k) whole |= value(thread, operand.list[k]) << (width * k);
    return whole;
  }

  // Where an access lies on this machine, or null after a fault.
  std::byte* access(const Thread& thread, const PtxInstruction& instruction, const PtxOperand& operand, bool writes) {
    const std::uint64_t address = value(thread, operand);
    const std::size_t bytes = instruction.width * instruction.vector;
    if (address % bytes != 0) {
      fail(instruction, thread, fmt::format("address {:#x} is not a multiple of {}", address, bytes));
      return nullptr;
    }
    if (instruction.is_shared) return access_shared(thread, instruction, address, bytes, writes);
    for (const GlobalRange& range : memory_) {
      if (address >= range.begin && address + bytes <= range.end && (range.is_written || !writes))
        return reinterpret_cast<std::byte*>(address);  // NOLINT: the machine's addresses are the process's
    }
    fail(instruction, thread, fmt::format("no tensor {} {} bytes at {:#x}", writes ? "takes" : "has", bytes, address));
    return nullptr;
  }

  std::byte* access_shared(const Thread& thread, const PtxInstruction& instruction, std::uint64_t address, std::size_t bytes,
                           bool writes) {
    if (address + bytes > shared_.size()) {
      fail(instruction, thread, "outside shared memory");
      return nullptr;
    }
    for (std::size_t cell = address / kCellBytes; cell < (address + bytes) / kCellBytes; ++cell) {
      Use& use = uses_[cell];
      if (!writes && use.written < 0) fail(instruction, thread, "shared memory never written");
      if (!writes && use.written == interval_ && use.writer != thread.index)
        fail(instruction, thread, "shared memory written without a barrier since");
      if (writes &&
          ((use.read == interval_ && use.reader != thread.index) || (use.written == interval_ && use.writer != thread.index)))
        fail(instruction, thread, "shared memory used without a barrier since");
      if (writes) {
        use.writer = thread.index;
        use.written = interval_;
      } else if (use.read != interval_) {
        use.reader = thread.index;
        use.read = interval_;
      } else if (use.reader != thread.index) {
        use.reader = kSeveral;
      }
    }
    return shared_.data() + address;
  }

  void load(Thread& thread, const PtxInstruction& instruction) {
    const PtxOperand& to = instruction.operands[0];
    const std::byte* from = access(thread, instruction, instruction.operands[1], false);
    if (from == nullptr) return;
    const std::size_t width = instruction.width;
    for (std::size_t i = 0; i < instruction.vector; ++i) {
      std::uint64_t loaded = 0;
      std::memcpy(&loaded, from + i * width, width);
      set(thread, to.kind == PtxOperand::Kind::list ? to.list[i].value : to.value, loaded);
    }
  }

  void store(Thread& thread, const PtxInstruction& instruction) {
    std::byte* to = access(thread, instruction, instruction.operands[0], true);
    if (to == nullptr) return;
    const PtxOperand& from = instruction.operands[1];
    const std::size_t width = instruction.width;
    for (std::size_t i = 0; i < instruction.vector; ++i) {
      const std::uint64_t stored = value(thread, from.kind == PtxOperand::Kind::list ? from.list[i] : from);
      std::memcpy(to + i * width, &stored, width);
    }
  }

  void shuffle(std::size_t first) {
    const PtxInstruction& instruction = code_[threads_[first].at];
    std::uint64_t values[32];
    for (std::size_t i = 0; i < 32; ++i) {
      Thread& thread = threads_[first + i];
      if (thread.is_done || thread.at != threads_[first].at || is_skipped(thread, instruction)) {
        fail(instruction, thread, "does not reach the shuffle of its warp");
        return;
      }
      values[i] = value(thread, instruction.operands[1]);
    }
    for (std::size_t i = 0; i < 32; ++i) {
      Thread& thread = threads_[first + i];
      set(thread, instruction.operands[0].value, values[i ^ value(thread, instruction.operands[2])]);
      ++thread.at;
    }
  }

  void barrier() {
    const auto waiting = std::find_if(threads_.begin(), threads_.end(), [](const Thread& t) { return !t.is_done; });
    if (waiting == threads_.end()) return;
    const std::size_t at = waiting->at;
    for (Thread& thread : threads_) {
      if (thread.is_done || thread.at != at) fail(code_[at], thread, "does not reach the barrier of its block");
      ++thread.at;
    }
    ++interval_;
  }

  const std::vector<PtxInstruction>& code_;
  const std::vector<std::uint64_t>& parameters_;
  std::uint64_t index_, grid_, static_bytes_;
  const std::vector<GlobalRange>& memory_;
  std::vector<Thread> threads_;
  std::vector<std::byte> shared_;
  std::vector<Use> uses_;  // by cell of shared memory
  int interval_ = 0;
  std::string fault_;
};

}  // namespace

int PtxMachine::register_number(std::string_view name) {
  return registers_.try_emplace(std::string(name), static_cast<int>(registers_.size())).first->second;
}

Result<PtxOperand> PtxMachine::parse_operand(std::string_view text) {
  PtxOperand operand;
  if (text.front() == '{') {
    operand.kind = PtxOperand::Kind::list;
    for (std::string_view part : split_operands(text.substr(1, text.size() - 2))) {
      HEADNORM_TRY(PtxOperand element, parse_operand(part));
      operand.list.push_back(std::move(element));
    }
    return operand;
  }
  if (text.front() == '[') {  // [%rd1], [%rd1+16], [array+4], [entry_param_2]
    const std::string_view inside = text.substr(1, text.size() - 2);
    const std::size_t plus = inside.find('+');
    HEADNORM_TRY(operand, parse_operand(inside.substr(0, plus)));
    if (operand.kind == PtxOperand::Kind::reg) operand = {PtxOperand::Kind::immediate, 0, static_cast<int>(operand.value), {}};
    if (plus == std::string_view::npos) return operand;
    HEADNORM_TRY(const std::int64_t offset, text::parse_integer(inside.substr(plus + 1), "offset"));
    operand.value += static_cast<std::uint64_t>(offset);
    return operand;
  }
  if (text == "%tid.x" || text == "%ctaid.x" || text == "%nctaid.x") {
    operand.kind = text == "%tid.x"     ? PtxOperand::Kind::thread
                   : text == "%ctaid.x" ? PtxOperand::Kind::block
                                        : PtxOperand::Kind::grid;
    return operand;
  }
  if (text.front() == '%' || text == "tmp" || text == "_") {
    operand.kind = PtxOperand::Kind::reg;
    operand.value = static_cast<std::uint64_t>(register_number(text));
    return operand;
  }
  if (text.starts_with("0f")) {
    std::from_chars(text.data() + 2, text.data() + text.size(), operand.value, 16);
    return operand;
  }
  if (const std::size_t at = text.find("_param_"); at != std::string_view::npos) {
    HEADNORM_TRY(const std::int64_t number, text::parse_integer(text.substr(at + 7), "parameter"));
    operand.value = static_cast<std::uint64_t>(number);
    return operand;
  }
  if (text == dynamic_array_) {
    operand.kind = PtxOperand::Kind::dynamic;
    return operand;
  }
  if (const auto array = shared_.find(text); array != shared_.end()) {
    operand.value = array->second;
    return operand;
  }
  HEADNORM_TRY(const std::int64_t number, text::parse_integer(text, "operand"));
  operand.value = static_cast<std::uint64_t>(number);
  return operand;
}

void PtxMachine::classify(PtxInstruction& instruction) const {
  const std::string& opcode = instruction.opcode;
  instruction.width = width_of(opcode);
  instruction.vector = vector_of(opcode);
  instruction.is_shared = opcode.find(".shared") != std::string::npos;
  if (const auto pure = pure_instructions().find(opcode); pure != pure_instructions().end()) instruction.function = pure->second;
  instruction.action = opcode == "ret"                  ? Action::leave
                       : opcode.starts_with("bra")      ? Action::jump
                       : opcode.starts_with("ld.param") ? Action::load_parameter
                       : opcode.starts_with("ld.")      ? Action::load
                       : opcode.starts_with("st.")      ? Action::store
                       : opcode.starts_with("shfl")     ? Action::shuffle
                       : opcode.starts_with("bar")      ? Action::barrier
                                                        : Action::compute;
}

Result<void> PtxMachine::parse_line(std::string_view line) {
  if (line.starts_with(".reqntid")) {
    HEADNORM_TRY(const std::int64_t threads, text::parse_integer(trimmed(line.substr(8)), "threads"));
    block_threads_ = static_cast<int>(threads);
    return {};
  }
  if (const std::size_t array = line.find(".shared .align 16 .b8 "); array != std::string_view::npos) {
    const std::string_view name = line.substr(array + 22);  // "name[128];"
    const std::size_t open = name.find('[');
    if (name[open + 1] == ']') {  // begins behind all others
      dynamic_array_ = name.substr(0, open);
      return {};
    }
    HEADNORM_TRY(const std::int64_t bytes, text::parse_integer(name.substr(open + 1, name.find(']') - open - 1), "bytes"));
    shared_[std::string(name.substr(0, open))] = static_cast<std::uint64_t>(shared_bytes_);
    shared_bytes_ += static_cast<int>((bytes + 15) / 16 * 16);
    return {};
  }
  if (line.ends_with(':')) {
    labels_[std::string(line.substr(0, line.size() - 1))] = code_.size();
    return {};
  }
  constexpr std::string_view kScope =
      "{ .reg .b16 tmp; ";  // LLVM takes the upper half of a register: "{ ... mov.b32 {tmp, a}, b; }"
  if (line.starts_with(kScope) && line.ends_with(" }")) line = line.substr(kScope.size(), line.size() - kScope.size() - 2);
  if (line.front() == '.' || line == "{" || line == "}" || line == ")") return {};  // directives and parameters
  if (!line.ends_with(';')) return unknown(line);

  PtxInstruction instruction;
  instruction.text = line;
  line = line.substr(0, line.size() - 1);
  if (line.front() == '@') {
    const std::size_t blank = line.find_first_of(" \t");
    instruction.negated = line[1] == '!';
    instruction.guard = register_number(line.substr(instruction.negated ? 2 : 1, blank - (instruction.negated ? 2 : 1)));
    line = trimmed(line.substr(blank));
  }
  const std::size_t blank = std::min(line.find_first_of(" \t"), line.size());
  instruction.opcode = line.substr(0, blank);
  if (!is_control(instruction.opcode) && pure_instructions().count(instruction.opcode) == 0) return unknown(instruction.text);
  const std::string_view rest = trimmed(line.substr(blank));
  classify(instruction);
  if (instruction.opcode.starts_with("bra")) {
    jumps_.emplace_back(code_.size(), rest);
  } else {
    for (std::string_view operand : split_operands(rest)) {
      HEADNORM_TRY(PtxOperand parsed, parse_operand(operand));
      instruction.operands.push_back(std::move(parsed));
    }
  }
  if (instruction.action == PtxInstruction::Action::compute && instruction.operands[0].kind == PtxOperand::Kind::list)
    instruction.action = PtxInstruction::Action::split;
  code_.push_back(std::move(instruction));
  return {};
}

Result<PtxMachine> PtxMachine::parse(std::string_view ptx) {
  PtxMachine machine;
  for (std::string_view line : text::split(ptx, '\n')) {
    line = trimmed(line.substr(0, line.find("//")));
    if (!line.empty()) HEADNORM_CHECK(machine.parse_line(line));
  }
  for (const auto& [at, label] : machine.jumps_) {
    const auto target = machine.labels_.find(label);
    if (target == machine.labels_.end()) return unknown(label);
    machine.code_[at].target = target->second;
  }
  if (machine.block_threads_ % 32 != 0 || machine.block_threads_ == 0) return unknown("a block of no whole warps");
  return machine;
}

std::string PtxMachine::run(const PtxLaunch& launch, const std::vector<std::uint64_t>& parameters,
                            const std::vector<GlobalRange>& memory, ThreadOrder order) const {
  return run_blocks(0, launch.grid, launch, parameters, memory, order);
}

std::string PtxMachine::run_blocks(std::int64_t first, std::int64_t last, const PtxLaunch& launch,
                                   const std::vector<std::uint64_t>& parameters, const std::vector<GlobalRange>& memory,
                                   ThreadOrder order) const {
  for (std::int64_t block = first; block < last; ++block) {
    const std::string fault =
        Block(code_, block_threads_, registers_.size(), static_cast<std::size_t>(shared_bytes_), parameters, block, launch, memory)
            .run(order);
    if (!fault.empty()) return fault;
  }
  return "";
}

int PtxMachine::count(std::string_view prefix) const {
  return static_cast<int>(std::count_if(code_.begin(), code_.end(),
                                        [&](const PtxInstruction& instruction) { return instruction.opcode.starts_with(prefix); }));
}

}  // namespace headnorm::test
