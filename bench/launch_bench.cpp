// What a launch costs on the processor: a driver that does nothing stands in for CUDA's, so that all that is measured is headnorm's
// own. Rounds of each are taken in turn; medians and 20th to 80th percentiles, per call.
//
// usage: launch_bench [ROUNDS]
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "generator/generator.h"
#include "runtime/c_api/headnorm_c.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/headnorm.h"
#include "tests/fixtures/fake_driver.h"

namespace {

using namespace headnorm;

constexpr int kCalls = 2000;
constexpr std::int64_t kRows = 1576;

struct Way {
  const char* name;
  std::function<bool()> call;
  std::vector<double> ns;
};

double time_ns(const Way& way) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    if (!way.call()) std::exit(1);
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls;
}

double quantile(std::vector<double> values, double share) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// Of `way` over `base`, round by round.
void print_difference(const char* name, const Way& way, const Way& base) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < way.ns.size(); ++i) differences.push_back(way.ns[i] - base.ns[i]);
  fmt::print("{:44} {:7.0f} ns  ({:.0f} to {:.0f})\n", name, quantile(differences, 0.5), quantile(differences, 0.2),
             quantile(differences, 0.8));
}

KernelSpec wide_spec() {
  KernelSpec spec;
  spec.width = 4096;
  spec.head_size = 256;
  return spec;
}

// Never touched: far apart, aligned to whatever a schedule asks for.
LaunchArguments far_arguments() {
  LaunchArguments arguments;
  arguments.rows = kRows;
  std::uintptr_t address = std::uintptr_t{1} << 40;
  for (Operand operand : kOperands) arguments.address(operand) = reinterpret_cast<void*>(address += std::uintptr_t{1} << 40);
  for (Operand operand : kOperands) arguments.stride(operand) = 4096;
  return arguments;
}

template <class T>
T or_exit(Result<T> result) {
  if (result.ok()) return std::move(*result);
  fmt::print(stderr, "{}\n{}\n", result.error().message, result.error().remedy);
  std::exit(1);
}

void check(headnorm_status status) {
  if (status == HEADNORM_OK) return;
  fmt::print(stderr, "{}\n{}\n", headnorm_last_error(), headnorm_last_remedy());
  std::exit(1);
}

// A launch by the C API, with all that it needs.
struct CLaunch {
  headnorm_device* device = nullptr;
  headnorm_runtime* runtime = nullptr;
  headnorm_spec* spec = nullptr;
  headnorm_arguments arguments = headnorm_arguments_init();

  CLaunch() {
    headnorm_device_options options = headnorm_device_options_init();
    options.driver = HEADNORM_FAKE_DRIVER;
    check(headnorm_device_open("cuda:0", &options, &device));
    check(headnorm_runtime_create(device, nullptr, nullptr, &runtime));
    check(headnorm_spec_parse(to_text(wide_spec()).c_str(), &spec));
    const LaunchArguments far = far_arguments();
    arguments.rows = far.rows;
    arguments.x = far.address(Operand::x);
    arguments.gamma = far.address(Operand::gamma);
    arguments.y = far.address(Operand::y);
  }
  CLaunch(const CLaunch&) = delete;
  CLaunch& operator=(const CLaunch&) = delete;
  ~CLaunch() {
    headnorm_runtime_release(runtime);
    headnorm_device_release(device);
    headnorm_spec_release(spec);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 200;
  void* const library = ::dlopen(HEADNORM_FAKE_DRIVER, RTLD_NOW);
  if (library == nullptr) return fmt::print(stderr, "{}\n", ::dlerror()), 1;
  reinterpret_cast<fixtures::FakeDriver* (*)()>(::dlsym(library, "fake_driver"))()->keeps_launches = false;
  const auto driver_launch = reinterpret_cast<int (*)(const cuda::LaunchConfig*, cuda::FunctionHandle, void**, void**)>(
      ::dlsym(library, "cuLaunchKernelEx"));

  const auto device = or_exit(make_cuda_device({HEADNORM_FAKE_DRIVER, "cuda", {}}, 0));
  const auto backend = make_llvm_backend();
  const KernelSpec spec = wide_spec();
  const LaunchArguments arguments = far_arguments();
  const Plan plan = or_exit(make_plan(spec, default_schedule(spec, device->info().target), device->info().target));
  const auto kernel = or_exit(device->load(or_exit(backend->compile(plan)), plan));
  Runtime runtime(*device, nullptr, backend.get());
  CLaunch c;
  cuda::LaunchConfig config;
  void* parameters[16] = {};

  Way ways[] = {
      {"the driver's call", [&] { return driver_launch(&config, nullptr, parameters, nullptr) == 0; }, {}},
      {"Device::launch", [&] { return device->launch(*kernel, arguments).ok(); }, {}},
      {"Runtime::run", [&] { return runtime.run(spec, arguments).ok(); }, {}},
      {"headnorm_runtime_launch",
       [&] { return headnorm_runtime_launch(c.runtime, c.spec, &c.arguments, nullptr) == HEADNORM_OK; },
       {}},
  };
  for (Way& way : ways) time_ns(way);  // the first launch loads
  for (int round = 0; round < rounds; ++round) {
    for (Way& way : ways) way.ns.push_back(time_ns(way));
  }
  for (const Way& way : ways)
    fmt::print("{:44} {:7.0f} ns  ({:.0f} to {:.0f})\n", way.name, quantile(way.ns, 0.5), quantile(way.ns, 0.2),
               quantile(way.ns, 0.8));
  print_difference("look-up: Runtime::run - Device::launch", ways[2], ways[1]);
  print_difference("launch: Runtime::run - the driver's call", ways[2], ways[0]);
  print_difference("launch: C API - the driver's call", ways[3], ways[0]);
}
