// With the generator: compile the kernel of a small shape, run it, compare with the formula in double.
#include <headnorm/generator/generator.h>
#include <headnorm/headnorm.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int kRows = 3, kWidth = 64, kHeadSize = 32;

float input(int index) { return static_cast<float>(index % 17) - 7.5f; }

double expected(int row, int column) {
  const int first = row * kWidth + column / kHeadSize * kHeadSize;
  double sum_sq = 0;
  for (int i = first; i < first + kHeadSize; ++i) sum_sq += double(input(i)) * input(i);
  return input(row * kWidth + column) / std::sqrt(sum_sq / kHeadSize + 1e-6);
}

int fail(const headnorm::Error& error) { return std::fprintf(stderr, "%s\n%s\n", error.message.c_str(), error.remedy.c_str()), 1; }

}  // namespace

int main() {
  auto device = headnorm::make_host_device(1);
  if (!device) return fail(device.error());
  const auto spec = headnorm::parse_spec("width=64,head_size=32,x=f32,y=f32,weight=none,eps=1e-06");
  if (!spec) return fail(spec.error());

  std::vector<float> x(kRows * kWidth), y(kRows * kWidth);
  for (int i = 0; i < kRows * kWidth; ++i) x[i] = input(i);
  headnorm::LaunchArguments arguments;
  arguments.rows = kRows;
  arguments.address(headnorm::Operand::x) = x.data();
  arguments.address(headnorm::Operand::y) = y.data();
  arguments.stride(headnorm::Operand::x) = arguments.stride(headnorm::Operand::y) = kWidth;

  const auto backend = headnorm::make_llvm_backend();
  headnorm::Runtime runtime(**device, nullptr, backend.get());
  const auto report = runtime.run(*spec, arguments);
  if (!report) return fail(report.error());

  // f32: a sum of 32 squares in any order and one rsqrt are within 40 units of 2^-24 of the value.
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kWidth; ++column) {
      const double want = expected(row, column), got = y[row * kWidth + column];
      if (!(std::abs(got - want) <= 40 * std::ldexp(std::abs(want), -24))) {
        return std::fprintf(stderr, "row %d column %d: %.9g, expected %.9g\n", row, column, got, want), 1;
      }
    }
  }
  std::printf("%d values right\n", kRows * kWidth);
}
