#include "emulator/ptx/body_parser.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "emulator/ptx/declaration.h"

namespace headnorm::emulator::ptx {
namespace {

constexpr std::uint64_t kMaxRegisters = 1 << 20;  // of a kernel: far past what a compiler writes

struct RegisterRange {
  int first = 0;
  std::uint64_t count = 0;
};

struct Scope {
  int number = 0;
  std::map<std::string, int, std::less<>> registers;
  std::map<std::string, RegisterRange, std::less<>> ranges;  // of %r<29>, by "%r"
};

class BodyParser {
 public:
  BodyParser(TokenStream& tokens, Kernel& kernel) : tokens_(tokens), kernel_(kernel) {}

  void run() {
    do {
      parse_statement();
    } while (!tokens_.failed() && !scopes_.empty());
  }

 private:
  void parse_statement() {
    if (tokens_.at_end()) return tokens_.fail("a kernel does not end");
    if (tokens_.take(";")) return;
    if (tokens_.take("{")) return open_scope();
    if (tokens_.take("}")) return scopes_.pop_back();
    if (tokens_.take(".reg")) return parse_registers();
    if (tokens_.at(".loc")) {
      const int line = tokens_.peek().line;
      while (!tokens_.at_end() && tokens_.peek().line == line) tokens_.next();
      return;
    }
    if (tokens_.take(".pragma")) return parse_pragma();
    if (const auto space = parse_space(tokens_.peek().text); space && *space != Space::param) {
      for (Variable& variable : parse_variables(tokens_)) kernel_.variables.push_back(std::move(variable));
      return;
    }
    if (tokens_.peek().kind == Token::Kind::word && tokens_.peek_second().text == ":") return parse_label();
    if (tokens_.peek().text.starts_with('.'))
      return tokens_.fail(fmt::format("directive '{}' in a kernel is not known", tokens_.peek().text));
    parse_instruction();
  }

  void open_scope() {
    const int parent = scopes_.empty() ? -1 : scopes_.back().number;
    scopes_.push_back({static_cast<int>(kernel_.scope_parents.size()), {}, {}});
    kernel_.scope_parents.push_back(parent);
  }

  void parse_label() {
    Label label;
    label.name = tokens_.expect_word();
    label.scope = scopes_.back().number;
    label.at = kernel_.code.size();
    tokens_.expect(":");
    if (tokens_.take(".branchtargets")) {
      do {
        label.targets.push_back(tokens_.expect_word());
      } while (tokens_.take(","));
      tokens_.expect(";");
    }
    kernel_.labels.push_back(std::move(label));
  }

  // .pragma "used_bytes_mask 4095": of the bytes that the next load reads, only these reach a result.
  void parse_pragma() {
    const int line = tokens_.peek().line;
    std::string_view text = tokens_.next().text;
    constexpr std::string_view kUsed = "\"used_bytes_mask ";
    if (text.starts_with(kUsed)) {
      text = text.substr(kUsed.size());
      int base = 10;
      if (text.starts_with("0x")) {
        text.remove_prefix(2);
        base = 16;
      }
      if (std::from_chars(text.data(), text.data() + text.size(), used_bytes_, base).ec != std::errc())
        tokens_.fail(line, "used_bytes_mask has no number");
    }
    tokens_.expect(";");
  }

  int add_register(std::string name, Type type) {
    kernel_.registers.push_back({std::move(name), type});
    return static_cast<int>(kernel_.registers.size()) - 1;
  }

  void parse_registers() {
    if (tokens_.at(".v2") || tokens_.at(".v4")) return tokens_.fail("vector registers are not supported");
    const Type type = expect_type(tokens_);
    do {
      const int line = tokens_.peek().line;
      const std::string name = tokens_.expect_word();
      if (!tokens_.take("<")) {
        scopes_.back().registers[name] = add_register(name, type);
        continue;
      }
      const std::uint64_t count = tokens_.expect_count();
      tokens_.expect(">");
      if (kernel_.registers.size() + count > kMaxRegisters) return tokens_.fail(line, "a kernel has too many registers");
      scopes_.back().ranges[name] = {static_cast<int>(kernel_.registers.size()), count};
      for (std::uint64_t i = 0; i < count; ++i) add_register(fmt::format("{}{}", name, i), type);
    } while (!tokens_.failed() && tokens_.take(","));
    tokens_.expect(";");
  }

  int find_in(const Scope& scope, std::string_view name) const {
    if (const auto found = scope.registers.find(name); found != scope.registers.end()) return found->second;
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    const auto range = scope.ranges.find(name.substr(0, digits));
    if (range == scope.ranges.end() || digits == name.size()) return -1;
    std::uint64_t number = 0;
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
    return number < range->second.count ? range->second.first + static_cast<int>(number) : -1;
  }

  int find_register(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const int found = find_in(*scope, name); found >= 0) return found;
    }
    return -1;
  }

  void parse_instruction() {
    Instruction instruction;
    const Token first = tokens_.peek();
    instruction.line = first.line;
    if (tokens_.take("@")) {
      instruction.is_guard_negated = tokens_.take("!");
      const std::string name = tokens_.expect_word();
      instruction.guard = find_register(name);
      if (instruction.guard < 0) return tokens_.fail(first.line, fmt::format("predicate {} is not declared", name));
    }
    const std::string opcode = tokens_.expect_word();
    if (opcode == "call" || opcode.starts_with("call."))
      return tokens_.fail(first.line, "call is not supported: let the compiler inline functions");
    split_opcode(opcode, instruction);
    while (!tokens_.failed() && !tokens_.at(";")) {
      instruction.operands.push_back(parse_operand());
      if (!tokens_.at(";")) tokens_.expect(",");
    }
    if (tokens_.failed()) return;
    const std::string_view last = tokens_.peek().text;
    instruction.text = collapse({first.text.data(), static_cast<std::size_t>(last.data() - first.text.data())});
    tokens_.expect(";");
    instruction.used_bytes = std::exchange(used_bytes_, ~std::uint64_t{0});
    kernel_.code.push_back(std::move(instruction));
  }

  static void split_opcode(std::string_view opcode, Instruction& instruction) {
    std::size_t begin = 0;
    while (begin <= opcode.size()) {
      const std::size_t end = std::min(opcode.find('.', begin), opcode.size());
      const std::string part(opcode.substr(begin, end - begin));
      if (begin == 0) {
        instruction.base = part;
      } else {
        instruction.modifiers.push_back(part);
      }
      begin = end + 1;
    }
  }

  static std::string collapse(std::string_view text) {
    std::string result;
    for (char c : text) {
      const bool is_blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
      if (is_blank && (result.empty() || result.back() == ' ')) continue;
      result.push_back(is_blank ? ' ' : c);
    }
    while (!result.empty() && result.back() == ' ') result.pop_back();
    return result;
  }

  Operand parse_operand() {
    Operand operand = parse_simple_operand();
    if (!tokens_.take("|")) return operand;
    Operand pair;
    pair.kind = Operand::Kind::pair;
    pair.items.push_back(std::move(operand));
    pair.items.push_back(parse_simple_operand());
    return pair;
  }

  Operand parse_simple_operand() {
    if (tokens_.take("{")) return parse_list();
    if (tokens_.take("[")) return parse_address();
    Operand operand;
    if (tokens_.take("!")) operand.is_negated = true;
    if (tokens_.peek().kind == Token::Kind::number || tokens_.at("-")) {
      const Number number = tokens_.expect_number();
      operand.kind = number.real_bytes == 0 ? Operand::Kind::integer : Operand::Kind::real;
      operand.value = number.bits;
      operand.real_bytes = number.real_bytes;
      return operand;
    }
    resolve(tokens_.expect_word(), operand);
    if (operand.kind == Operand::Kind::variable && tokens_.take("+"))
      operand.offset = static_cast<std::int64_t>(tokens_.expect_number().bits);
    return operand;
  }

  void resolve(std::string name, Operand& operand) {
    if (name == "_") {
      operand.kind = Operand::Kind::sink;
      return;
    }
    operand.reg = find_register(name);
    if (operand.reg >= 0) {
      operand.kind = Operand::Kind::reg;
      return;
    }
    // Labels may come later in the text: the decoder tells labels and variables apart by where they stand.
    operand.kind = name.starts_with('%') ? Operand::Kind::special : Operand::Kind::variable;
    operand.name = std::move(name);
    operand.scope = scopes_.back().number;
  }

  Operand parse_list() {
    Operand list;
    list.kind = Operand::Kind::list;
    do {
      list.items.push_back(parse_simple_operand());
    } while (!tokens_.failed() && tokens_.take(","));
    tokens_.expect("}");
    return list;
  }

  Operand parse_address() {
    Operand address;
    if (tokens_.peek().kind == Token::Kind::number || tokens_.at("-")) {
      address.offset = static_cast<std::int64_t>(tokens_.expect_number().bits);
    } else {
      const int line = tokens_.peek().line;
      resolve(tokens_.expect_word(), address);
      if (address.kind != Operand::Kind::reg && address.kind != Operand::Kind::variable)
        tokens_.fail(line, "an address begins with a register, a variable or a number");
      if (tokens_.at("+") || tokens_.at("-")) {
        tokens_.take("+");
        address.offset = static_cast<std::int64_t>(tokens_.expect_number().bits);
      }
    }
    address.kind = Operand::Kind::address;
    tokens_.expect("]");
    return address;
  }

  TokenStream& tokens_;
  Kernel& kernel_;
  std::vector<Scope> scopes_;
  std::uint64_t used_bytes_ = ~std::uint64_t{0};
};

}  // namespace

void parse_body(TokenStream& tokens, Kernel& kernel) { BodyParser(tokens, kernel).run(); }

}  // namespace headnorm::emulator::ptx
