// Driver: the CUDA driver of a shared library as a table of functions, opened at run time and never closed (a driver does not
// survive that), with its errors as values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/result.h"
#include "core/target.h"
#include "runtime/cuda/driver_api.h"

namespace headnorm::cuda {

class Driver {
 public:
  // `library`: a name that the dynamic loader finds or a path. The same library gives the same driver. Errors (environment): it
  // cannot be opened, lacks a function, or does not initialise; the message says which.
  static Result<std::shared_ptr<const Driver>> open(const std::string& library);

  // As the driver states it: 12080 is CUDA 12.8.
  int version() const { return version_; }

  // "cuMemAlloc of 4096 bytes: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", with a remedy for what users meet, and with what the
  // emulator has to say of a kernel's fault.
  Result<void> check(Status status, std::string_view what) const {
    if (status == kSuccess) return {};
    return error_of(status, what);
  }

  // Whether it has the functions that link.
  bool can_link() const {
    return link_create != nullptr && link_add_data != nullptr && link_complete != nullptr && link_destroy != nullptr;
  }

#define HEADNORM_CUDA_MEMBER(member, name, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
  HEADNORM_CUDA_FUNCTIONS(HEADNORM_CUDA_MEMBER)
  HEADNORM_CUDA_LINK_FUNCTIONS(HEADNORM_CUDA_MEMBER)
#undef HEADNORM_CUDA_MEMBER

 private:
  Error error_of(Status status, std::string_view what) const;

  int version_ = 0;
  const char* (*last_fault_)() = nullptr;  // of the emulator alone
};

// The newest PTX version (times ten) that a driver of this version compiles, as NVIDIA's release notes pair them.
int newest_ptx(int driver_version);

// The newest target known that runs on a GPU of this compute capability (90 is 9.0) with this driver, if any: PTX for an older GPU
// is compiled for a newer one, the other way it is not. With the lowest PTX version that has all that headnorm emits for it.
std::optional<Target> best_target(int capability, int driver_version);

// Whether code for `target` runs on a GPU of this compute capability; targets of one processor alone run on no other.
bool runs_on(const Target& target, int capability);

}  // namespace headnorm::cuda
