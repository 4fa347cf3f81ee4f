// Opens a tuned database and runs the kernel it holds for a small tensor; needs no compiler. Fill the database with
//   headnorm tune --spec width=256,head_size=64,x=f32,y=f32,weight=none,eps=1e-06 --rows 4 --device host --db DIR
// and start this as `run_tuned DIR`.
#include <cstdio>
#include <vector>

#include "runtime/headnorm.h"

namespace {

int explain(const headnorm::Error& error) {
  std::fprintf(stderr, "error: %s\n%s\n", error.message.c_str(), error.remedy.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto database = headnorm::Database::open(argc > 1 ? argv[1] : "tuned", {.read_only = true, .warn = {}});
  if (!database) return explain(database.error());
  const auto device = headnorm::make_host_device(0);
  if (!device) return explain(device.error());
  const auto spec = headnorm::parse_spec("width=256,head_size=64,x=f32,y=f32,weight=none,eps=1e-06");
  if (!spec) return explain(spec.error());

  // Memory of the device is aligned as every kernel asks.
  constexpr std::int64_t kRows = 4, kWidth = 256, kBytes = kRows * kWidth * sizeof(float);
  std::vector<float> values(kRows * kWidth, 3.0f);
  const auto x = (*device)->allocate(kBytes), y = (*device)->allocate(kBytes);
  if (!x || !y) return explain((x ? y : x).error());
  headnorm::LaunchArguments arguments;
  arguments.rows = kRows;
  arguments.address(headnorm::Operand::x) = x->address();
  arguments.address(headnorm::Operand::y) = y->address();
  arguments.stride(headnorm::Operand::x) = arguments.stride(headnorm::Operand::y) = kWidth;

  if (const auto in = (*device)->copy_in(x->address(), values.data(), kBytes); !in) return explain(in.error());
  headnorm::Runtime runtime(**device, database->get(), nullptr);
  const auto report = runtime.run(*spec, arguments);
  if (!report) return explain(report.error());
  if (const auto out = (*device)->copy_out(values.data(), y->address(), kBytes); !out) return explain(out.error());
  std::printf("served: %s\nschedule: %s\ny[0]: %.6f\n", to_text(report->served), to_text(report->schedule).c_str(), values[0]);
}
