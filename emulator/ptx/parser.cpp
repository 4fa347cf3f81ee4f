#include "emulator/ptx/parser.h"

#include <fmt/format.h>

#include <cstring>

#include "emulator/ptx/body_parser.h"
#include "emulator/ptx/declaration.h"
#include "emulator/ptx/token_stream.h"

namespace headnorm::emulator::ptx {
namespace {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Outcome<Module> run() {
    parse_head();
    while (!tokens_.failed() && !tokens_.at_end()) parse_item();
    if (tokens_.failed()) return Failure{tokens_.failure()};
    return std::move(module_);
  }

 private:
  void parse_head() {
    tokens_.expect(".version");
    const std::string_view version = tokens_.peek().text;
    const bool is_version = version.size() >= 3 && version.size() <= 4 && version[version.size() - 2] == '.';
    if (!is_version) return tokens_.fail(fmt::format("expected a version such as 8.0 before '{}'", version));
    for (char c : version) module_.version = c == '.' ? module_.version : 10 * module_.version + (c - '0');
    tokens_.next();
    tokens_.expect(".target");
    module_.target = tokens_.expect_word();
    while (tokens_.take(",")) {
      const std::string option = tokens_.expect_word();
      if (option != "debug" && option != "texmode_independent") tokens_.fail(fmt::format(".target {} is not known", option));
    }
    if (!module_.target.starts_with("sm_")) tokens_.fail(fmt::format(".target {} is not a sm_ target", module_.target));
    if (tokens_.take(".address_size") && tokens_.expect_count() != 64) tokens_.fail(".address_size must be 64");
  }

  void parse_item() {
    if (tokens_.take(".file") || tokens_.take(".loc")) {
      const int line = tokens_.peek().line;
      while (!tokens_.at_end() && tokens_.peek().line == line) tokens_.next();
      return;
    }
    if (tokens_.take(".section")) return tokens_.skip_past("}");
    if (tokens_.take(".pragma")) return tokens_.skip_past(";");
    bool is_extern = false;
    while (tokens_.at(".visible") || tokens_.at(".weak") || tokens_.at(".extern"))
      is_extern = tokens_.next().text == ".extern" || is_extern;
    if (tokens_.take(".entry")) return parse_kernel();
    if (tokens_.at(".func")) {
      if (!is_extern) return tokens_.fail("functions (.func) are not supported: let the compiler inline them");
      return tokens_.skip_past(";");
    }
    if (const auto space = parse_space(tokens_.peek().text); space && *space != Space::param && *space != Space::local) {
      for (Variable& variable : parse_variables(tokens_)) {
        if (is_extern && variable.space != Space::shared)
          tokens_.fail(variable.line, fmt::format("external variable {} has no definition", variable.name));
        module_.variables.push_back(std::move(variable));
      }
      return;
    }
    tokens_.fail(fmt::format("directive '{}' is not known", tokens_.peek().text));
  }

  void parse_kernel() {
    Kernel kernel;
    kernel.line = tokens_.peek().line;
    kernel.name = tokens_.expect_word();
    if (tokens_.take("(") && !tokens_.take(")")) {
      do {
        kernel.parameters.push_back(parse_parameter(tokens_));
      } while (tokens_.take(","));
      tokens_.expect(")");
    }
    while (!tokens_.failed() && !tokens_.at("{")) parse_kernel_directive(kernel);
    if (!tokens_.failed()) parse_body(tokens_, kernel);
    module_.kernels.push_back(std::move(kernel));
  }

  void parse_extent(std::array<std::uint32_t, 3>& extent) {
    extent = {1, 1, 1};
    for (std::uint32_t& size : extent) {
      size = static_cast<std::uint32_t>(tokens_.expect_count());
      if (size == 0) tokens_.fail("an extent is at least 1");
      if (!tokens_.take(",")) return;
    }
  }

  void parse_kernel_directive(Kernel& kernel) {
    const Token directive = tokens_.next();
    if (directive.text == ".maxntid") return parse_extent(kernel.max_threads);
    if (directive.text == ".reqntid") return parse_extent(kernel.required_threads);
    if (directive.text == ".reqnctapercluster") return parse_extent(kernel.cluster);
    auto count = [&] { return static_cast<std::uint32_t>(tokens_.expect_count()); };
    if (directive.text == ".minnctapersm" || directive.text == ".maxnctapersm") {
      kernel.min_blocks = count();
    } else if (directive.text == ".maxnreg") {
      kernel.max_registers = count();
    } else if (directive.text == ".maxclusterrank") {
      kernel.max_cluster_rank = count();
    } else if (directive.text == ".pragma") {
      tokens_.skip_past(";");
    } else if (directive.text != ".explicitcluster" && directive.text != ".noreturn") {
      tokens_.fail(directive.line, fmt::format("directive '{}' of a kernel is not known", directive.text));
    }
  }

  TokenStream tokens_;
  Module module_;
};

}  // namespace

Outcome<Module> parse_module(std::string_view text) {
  if (const std::size_t end = text.find('\0'); end != std::string_view::npos) text = text.substr(0, end);
  Outcome<std::vector<Token>> tokens = split_tokens(text);
  if (!tokens.ok()) return Failure{tokens.message()};
  return Parser(*std::move(tokens)).run();
}

}  // namespace headnorm::emulator::ptx
