#include <fmt/format.h>

#include "emulator/counters.h"
#include "emulator/fault.h"

namespace headnorm::emulator {

const char* to_text(Rule rule) {
  constexpr const char* kNames[] = {"in_bounds",     "device_memory", "alignment",    "initialised",  "barrier",  "shuffle", "race",
                                    "block_overlap", "async_copy",    "launch_order", "launch_limit", "progress", "trap"};
  return kNames[static_cast<std::size_t>(rule)];
}

const char* to_text(Kind kind) {
  constexpr const char* kNames[kKinds] = {"integer", "floating", "convert", "move",    "compare", "branch", "global", "shared",
                                          "local",   "param",    "shuffle", "barrier", "async",   "atomic", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string to_text(const Fault& fault) {
  std::string text = fmt::format("kernel {}", fault.kernel);
  if (!fault.instruction.empty()) {
    text += fmt::format(", line {} '{}', block ({},{},{}), thread ({},{},{})", fault.line, fault.instruction, fault.block.x,
                        fault.block.y, fault.block.z, fault.thread.x, fault.thread.y, fault.thread.z);
  }
  if (fault.address) text += fmt::format(", address {:#x}", *fault.address);
  return text + fmt::format(": {} (rule: {})", fault.what, to_text(fault.rule));
}

}  // namespace headnorm::emulator
