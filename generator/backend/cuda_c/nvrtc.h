// Nvrtc: NVIDIA's run-time compiler of CUDA C, opened by name and never linked: one binary serves machines with and without it.
#pragma once

#include <memory>
#include <string>

#include "core/result.h"
#include "core/target.h"

namespace headnorm::cuda_c {

class Nvrtc {
 public:
  // `library`: its path, or "" for what the loader finds and then CUDA's usual places. Stays open to the end of the process. Error
  // (environment): it is not there, or is not NVRTC.
  static Result<std::shared_ptr<const Nvrtc>> open(const std::string& library);

  const std::string& version() const { return version_; }  // "13.0"
  static std::string flags();                              // but for the target

  // The PTX of a CUDA C text. May be called from several threads at once. Errors: NVRTC does not know the target (environment), or
  // does not take the text (internal); the message has its log.
  Result<std::string> compile(const std::string& source, const std::string& name, const Target& target) const;

 private:
  struct Functions;

  explicit Nvrtc(std::shared_ptr<const Functions> functions) : functions_(std::move(functions)) {}
  Error refusal(int status, const std::string& log, const Target& target) const;

  std::shared_ptr<const Functions> functions_;
  std::string version_;
};

}  // namespace headnorm::cuda_c
