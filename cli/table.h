// Table: rows of text under headings, columns padded to their widest cell.
#pragma once

#include <string>
#include <vector>

namespace headnorm::cli {

class Table {
 public:
  // A heading that begins with '>' makes its column right-aligned (numbers).
  explicit Table(std::vector<std::string> headings);

  void add(std::vector<std::string> cells);  // as many as there are headings
  std::string render() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

// "name   value" lines.
std::string render_facts(const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace headnorm::cli
