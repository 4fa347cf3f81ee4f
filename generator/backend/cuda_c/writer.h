// Writer: indented lines of CUDA C.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headnorm::cuda_c {

class Writer {
 public:
  void line(std::string_view text) {
    if (!text.empty()) text_.append(static_cast<std::size_t>(indent_), ' ').append(text);
    text_ += '\n';
  }
  void directive(std::string_view text) { text_.append(text) += '\n'; }  // from the start of the line
  // A statement with the formula that it computes: behind it, or above it where the line would be long.
  void statement(const std::string& text, const std::string& formula) {
    constexpr std::size_t kColumns = 120;
    if (formula.empty()) return line(text);
    if (static_cast<std::size_t>(indent_) + text.size() + formula.size() + 5 <= kColumns) return line(text + "  // " + formula);
    line("// " + formula);
    line(text);
  }
  void open(std::string_view text) {
    line(text);
    indent_ += 2;
  }
  void close() { end("}"); }
  void end(std::string_view text) {
    indent_ -= 2;
    line(text);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int indent_ = 2;
};

// "a, b, c", with new lines before what would pass the last column.
inline std::string join_lines(const std::vector<std::string>& items, int indent) {
  constexpr std::size_t kColumns = 110;
  std::string text;
  std::size_t column = static_cast<std::size_t>(indent);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
    const bool breaks = i > 0 && column + 1 + item.size() > kColumns;
    if (breaks) text += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
    if (i > 0 && !breaks) text += ' ';
    column = (breaks ? static_cast<std::size_t>(indent) : column + 1) + item.size();
    text += item;
  }
  return text;
}

}  // namespace headnorm::cuda_c
