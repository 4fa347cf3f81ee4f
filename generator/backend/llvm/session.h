// LLVM session: everything both LLVM backends share: target machines, verification, optimisation and emission.
#pragma once

#include <memory>
#include <string>

#include "core/plan.h"
#include "generator/program/program.h"

namespace headnorm::llvm_backend {

enum class Output : std::uint8_t { object, assembly, ir };  // assembly is PTX for a GPU target

// "llvm-22.1.8"
std::string llvm_version();

// Lowers, verifies, optimises and emits. Not thread-safe: one session per thread at a time (generator.cpp keeps a pool).
class Session {
 public:
  Session();
  ~Session();
  Result<std::string> compile(const Plan& plan, const program::Program& program, Output output);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headnorm::llvm_backend
