// Progress: one line on standard error that is written over and over while a verb works; silent where that is no terminal.
#pragma once

#include <chrono>
#include <string>

#include "cli/report.h"

namespace headnorm::cli {

class ProgressLine {
 public:
  explicit ProgressLine(const Context& context) : visible_(context.environment.stderr_is_terminal) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const std::string& text);  // cut to the width of the terminal; at most ten times a second
  void clear();                          // before anything else is written to standard error

 private:
  bool visible_ = false, drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace headnorm::cli
