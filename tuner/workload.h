// Workload: the operands of a launch in a device's memory, inside guard bands, in one or more sets that trials take in turn.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tuner/input_data.h"

namespace headnorm {

struct WorkloadShape {
  std::int64_t rows = 0;
  int sets = 1;                            // sets of row operands; the weights are shared, as those of a layer are
  std::int64_t gap_bytes = 0;              // between the rows of every row operand; filled with a canary
  std::int64_t guard_bytes = 4096;         // before and after each operand of each set; a multiple of 256
  std::vector<std::int64_t> checked_rows;  // whose outputs are poisoned before a launch and read after it; ascending
};

// Every set is ready for a launch at all times: inputs hold the data, checked output rows the poison (NaN in every dtype). Whoever
// launches on a set calls restore for it afterwards, not before: a set that has just been written to is in the caches.
class Workload {
 public:
  // Row operands' bytes of one set, guards and gaps included.
  static std::int64_t set_bytes(const KernelSpec& spec, const WorkloadShape& shape);

  // `data` must outlive the workload. `stopped` (may be empty) is asked before every set of an operand is filled; once it says yes,
  // the rest is left out and the workload must not be launched on. Error: of the device's allocation.
  static Result<Workload> make(Device& device, const KernelSpec& spec, const WorkloadShape& shape, const InputData& data,
                               const std::function<bool()>& stopped = {});

  const WorkloadShape& shape() const { return shape_; }
  LaunchArguments arguments(int set) const;

  // What is damaged outside of the outputs: guard bands, gaps, and the inputs where they are not outputs too. The first damage
  // found. Inputs are compared in full only if every row is a checked one.
  Result<std::optional<std::string>> find_damage(int set);

  // The elements of output row `row` (one of checked_rows) as they are stored.
  Result<std::vector<float>> read_row(int set, Operand output, std::int64_t row);

  Result<void> restore(int set);
  // After damage: also the canaries and the inputs.
  Result<void> repair(int set);

 private:
  struct Region {
    Buffer buffer;
    std::int64_t row_bytes = 0, stride_bytes = 0, rows = 0, pitch = 0;  // pitch: from set to set
    std::int64_t data_bytes() const { return (rows - 1) * stride_bytes + row_bytes; }
  };

  Workload(Device& device, const KernelSpec& spec, const WorkloadShape& shape, const InputData& data);
  Operand home(Operand operand) const;  // the operand whose memory it shares
  Region& region(Operand operand) { return regions_[static_cast<std::size_t>(home(operand))]; }
  const Region& region(Operand operand) const { return regions_[static_cast<std::size_t>(home(operand))]; }
  std::byte* address(Operand operand, int set) const;
  Result<void> allocate(Operand operand, const std::function<bool()>& stopped);
  Result<void> fill_input(Operand operand, int set);
  Result<void> poison(Operand operand, int set);
  Result<void> write_canaries(Operand operand, int set);
  Result<std::optional<std::string>> find_damaged_canary(Operand operand, int set);
  Result<std::optional<std::string>> find_changed_input(Operand operand, int set);
  bool checks_all_rows() const { return static_cast<std::int64_t>(shape_.checked_rows.size()) == shape_.rows; }

  Device* device_;
  KernelSpec spec_;
  WorkloadShape shape_;
  const InputData* data_;
  std::array<Region, kOperandCount> regions_;
};

}  // namespace headnorm
