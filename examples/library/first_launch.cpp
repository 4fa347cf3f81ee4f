#include <headnorm/generator/generator.h>
#include <headnorm/headnorm.h>

#include <cstdio>
#include <vector>

int fail(const headnorm::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.message.c_str(), error.remedy.c_str());
  return 1;
}

int main() {
  const auto spec = headnorm::parse_spec("width=256,head_size=64,x=f32,y=f32,weight=none,eps=1e-06");
  if (!spec) return fail(spec.error());
  const auto device = headnorm::make_host_device(0);  // threads; 0: one per processor
  if (!device) return fail(device.error());
  const auto compiler = headnorm::make_llvm_backend();
  headnorm::Runtime runtime(**device, nullptr, compiler.get());

  constexpr std::int64_t kRows = 4, kWidth = 256;
  std::vector<float> x(kRows * kWidth, 3.0f), y(kRows * kWidth);
  headnorm::LaunchArguments arguments;
  arguments.rows = kRows;
  arguments.address(headnorm::Operand::x) = x.data();
  arguments.stride(headnorm::Operand::x) = kWidth;  // elements from row to row
  arguments.address(headnorm::Operand::y) = y.data();
  arguments.stride(headnorm::Operand::y) = kWidth;

  const auto report = runtime.run(*spec, arguments);
  if (!report) return fail(report.error());
  std::printf("%s schedule %s\ny[0] = %.6f\n", to_text(report->served), to_text(report->schedule).c_str(), y[0]);
}
