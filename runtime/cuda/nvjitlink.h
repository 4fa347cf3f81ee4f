// NvJitLink: CUDA's library that assembles PTX, opened at run time where it is installed; no driver and no GPU is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/result.h"

namespace headnorm::cuda {

struct LinkedCubin {
  std::string bytes;
  std::string log;
};

class NvJitLink {
 public:
  // The first of these libraries that is there. Error (environment): none is, or it lacks a function.
  static Result<std::shared_ptr<const NvJitLink>> open(std::span<const std::string> libraries);

  int version() const { return version_; }  // of CUDA, as drivers state theirs: 13000 is 13.0

  // Whether this version has heard of a GPU of this compute capability. Asked for another one, the library ends the process.
  bool knows(int capability) const { return knows(version_, capability); }
  static bool knows(int version, int capability);

  // `architecture`: "sm_90", known. Error (environment): what the library has to say of the PTX. Thread-safe.
  Result<LinkedCubin> link(const std::string& ptx, const std::string& architecture) const;

 private:
  using Handle = struct LinkObject*;
  struct Session;
  using Status = int;

  Status (*create_)(Handle*, std::uint32_t, const char**) = nullptr;
  Status (*destroy_)(Handle*) = nullptr;
  Status (*add_data_)(Handle, int, const void*, std::size_t, const char*) = nullptr;
  Status (*complete_)(Handle) = nullptr;
  Status (*cubin_size_)(Handle, std::size_t*) = nullptr;
  Status (*cubin_)(Handle, void*) = nullptr;
  Status (*error_log_size_)(Handle, std::size_t*) = nullptr;
  Status (*error_log_)(Handle, char*) = nullptr;
  Status (*info_log_size_)(Handle, std::size_t*) = nullptr;
  Status (*info_log_)(Handle, char*) = nullptr;
  int version_ = 0;
};

}  // namespace headnorm::cuda
