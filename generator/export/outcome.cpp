#include "generator/export/outcome.h"

namespace headnorm::exports {

std::string t4_invalidity(const Trial& trial) {
  const std::string& kind = trial.failure;
  if (kind.empty()) return "correct";
  if (kind == "compile") return "compile";
  if (kind == "incorrect" || kind == "out_of_bounds") return "correctness";
  if (kind == "alignment" || kind == "illegal") return "constraints";
  return "runtime";
}

std::string kernel_tuner_error(const Trial& trial) {
  const std::string invalidity = t4_invalidity(trial);
  if (invalidity == "correct") return "";
  if (invalidity == "compile") return "CompilationFailedConfig";
  return invalidity == "constraints" ? "InvalidConfig" : "RuntimeFailedConfig";
}

}  // namespace headnorm::exports
