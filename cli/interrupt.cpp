#include "cli/interrupt.h"

#include <csignal>

namespace headnorm::cli {
namespace {

volatile std::sig_atomic_t interrupt_requested = 0;

void handle_signal(int) { interrupt_requested = 1; }

}  // namespace

InterruptScope::InterruptScope() {
  interrupt_requested = 0;
  struct sigaction action {};
  action.sa_handler = handle_signal;
  action.sa_flags = SA_RESETHAND;
  for (int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

InterruptScope::~InterruptScope() {
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

bool InterruptScope::requested() { return interrupt_requested != 0; }

}  // namespace headnorm::cli
