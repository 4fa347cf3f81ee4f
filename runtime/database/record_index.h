// RecordIndex: the records of a database in memory, and the choice of the one that serves a look-up. Knows nothing of files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/database/database.h"

namespace headnorm {

class RecordIndex {
 public:
  void clear();
  void add(std::shared_ptr<const Record> record);
  // Several of one spec, which is cheaper.
  void add(const std::vector<std::shared_ptr<const Record>>& records);

  // The first of these whose schedule is legal for the spec and the device's target. Out of the records of this device (same kind,
  // name, target and units):
  //   exact           measured, same spec and rows; cold before warm
  //   nearest_rows    measured, same spec, rows within a factor of 4; nearest by ratio, the smaller of two equally near
  //   predicted       predicted or emulated, same spec and rows
  //   far_rows        measured, same spec, other rows
  //   predicted_rows  predicted, same spec, other rows; nearest by ratio
  //   other_shape     same options, other width or head size; measured first, then nearest width, head size, rows by ratio
  // An emulated record comes after every measured or predicted one of the spec, whatever its rows. Then, out of the records of
  // other devices with the same instruction set, none of them emulated:
  //   other_device    same spec before other shapes; the same name first, then the nearest number of units, then as above
  // and last
  //   fallback        default_schedule
  // Errors (user): a spec that make_spec refuses, negative rows.
  Result<Lookup> look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) const;

 private:
  using Records = std::vector<std::shared_ptr<const Record>>;
  std::map<std::string, Records> by_spec_;   // by canonical text
  std::map<std::string, Records> by_class_;  // by the canonical text without the shape
};

}  // namespace headnorm
