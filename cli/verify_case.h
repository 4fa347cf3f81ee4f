// Verify case: one launch of one plan on random data, every element of its outputs compared with double precision.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/codegen_backend.h"
#include "runtime/device.h"
#include "tuner/verification.h"

namespace headnorm::cli {

struct Failure {
  std::string schedule;
  std::int64_t rows = 0;
  std::string what;  // "y", "residual_out", or the kind of failure: "compile", "launch", "damage"
  std::string message;
  std::int64_t row = -1, head = -1, channel = -1;  // -1: not of one element
  double value = 0, expected = 0, bound = 0;       // bound: largest right distance before the rounding to the output dtype
};

// The cases of one spec: they share its data, its reference and its compiled plans.
class SpecVerifier {
 public:
  // All must outlive the verifier.
  SpecVerifier(Device& device, CodegenBackend& backend, const KernelSpec& spec, Reference reference, std::uint64_t seed);

  // The first wrong element, or whatever else went wrong; none if all is right. Error: memory or the device.
  Result<std::optional<Failure>> run(const Plan& plan, std::int64_t rows);

 private:
  std::optional<Failure> compare_row(const Plan& plan, std::int64_t row, Operand output, const std::vector<float>& stored);
  const ReferenceRow& reference_row(std::int64_t data_row);

  Device* device_;
  CodegenBackend* backend_;
  KernelSpec spec_;
  Reference reference_;
  InputData data_;
  std::map<std::int64_t, ReferenceRow> reference_rows_;
  std::string loaded_schedule_;
  std::shared_ptr<const LoadedKernel> loaded_;
};

}  // namespace headnorm::cli
