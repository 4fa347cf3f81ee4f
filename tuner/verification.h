// Verification: compares what a kernel wrote with a reference in double precision, within the bound that its arithmetic allows.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/error_bound.h"
#include "tuner/workload.h"

namespace headnorm {

// Outputs of one row before their rounding to the output dtypes; residual_out empty without a residual.
struct ReferenceRow {
  std::vector<double> y, residual_out;
};

// Injected: the tuner does not know the maths of a spec. The spec is canonical.
using Reference = std::function<ReferenceRow(const KernelSpec& spec, const RowValues& inputs)>;

// Why a candidate cannot win.
struct Rejection {
  std::string kind;  // "compile", "load", "alignment", "launch", "incorrect", "out_of_bounds", "crash"
  std::string message;
};

// Keeps what it computed: the reference once for each row of the data, the ranges once for each kind of arithmetic among plans.
class Verifier {
 public:
  // `spec` is canonical; `data` must outlive the verifier.
  Verifier(const KernelSpec& spec, const InputData& data, Reference reference);

  // Compares the checked rows and the guard bands of `set` after a launch of `plan`. Error: of the device.
  Result<std::optional<Rejection>> check(const Plan& plan, Workload& workload, int set);

 private:
  // Stored values that are right; low > high where any is. Of y with rounding llama also those of the cast's other neighbour.
  struct Ranges {
    std::vector<float> low, high;
    std::vector<float> other_low, other_high;
  };
  struct OutputRanges {
    Ranges y, residual_out;
  };
  using ArithmeticKey = std::tuple<std::int64_t, std::int64_t, double>;

  const std::vector<OutputRanges>& ranges_for(const Plan& plan);
  const ReferenceRow& reference_row(std::int64_t row);
  std::optional<std::string> find_mismatch(const std::vector<float>& stored, const Ranges& ranges) const;

  KernelSpec spec_;
  const InputData* data_;
  Reference reference_;
  std::vector<ReferenceRow> rows_;
  std::map<ArithmeticKey, std::vector<OutputRanges>> ranges_;
};

}  // namespace headnorm
