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

  std::vector<float> x(4 * 256, 3.0f), y(x.size());
  headnorm::LaunchArguments arguments;
  arguments.rows = 4;
  arguments.address(headnorm::Operand::x) = x.data();
  arguments.address(headnorm::Operand::y) = y.data();
  arguments.stride(headnorm::Operand::x) = arguments.stride(headnorm::Operand::y) = 256;

  headnorm::Runtime runtime(**device, database->get(), nullptr);
  const auto report = runtime.run(*spec, arguments);
  if (!report) return explain(report.error());
  std::printf("served: %s\nschedule: %s\ny[0]: %.6f\n", to_text(report->served), to_text(report->schedule).c_str(), y[0]);
}
