#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace headnorm::cli {
namespace {

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

void ProgressLine::update(const std::string& text) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (!visible_ || (drawn_ && now - last_ < 100ms)) return;
  last_ = now;
  drawn_ = true;
  std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(std::min(text.size(), terminal_columns() - 1)), text.c_str());
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (!drawn_) return;
  drawn_ = false;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace headnorm::cli
