#include <headnorm/generator/generator.h>
#include <headnorm/headnorm.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

// Stands for the thread pool that a program has already.
class MyThreads final : public headnorm::Executor {
 public:
  int threads() const override { return 2; }  // a launch is cut into at most so many tasks
  void run(int count, const std::function<void(int)>& task) override {
    std::atomic<int> next = 0;
    const auto work = [&] {
      for (int i = next++; i < count; i = next++) task(i);
    };
    std::jthread helper(work);
    work();
    tasks += count;
  }
  int tasks = 0;
};

int fail(const headnorm::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.message.c_str(), error.remedy.c_str());
  return 1;
}

int main() {
  const auto threads = std::make_shared<MyThreads>();
  const auto device = headnorm::make_host_device(threads);
  if (!device) return fail(device.error());
  const auto compiler = headnorm::make_llvm_backend();
  headnorm::Runtime runtime(**device, nullptr, compiler.get());

  headnorm::KernelSpec spec;  // bf16, gamma per channel
  spec.width = 4096;
  spec.head_size = 256;
  std::vector<std::uint16_t> x(512 * 4096, 0x3f80), gamma(4096, 0x3f80), y(512 * 4096);  // ones
  headnorm::LaunchArguments arguments;
  arguments.rows = 512;
  arguments.address(headnorm::Operand::x) = x.data();
  arguments.address(headnorm::Operand::gamma) = gamma.data();
  arguments.address(headnorm::Operand::y) = y.data();
  arguments.stride(headnorm::Operand::x) = arguments.stride(headnorm::Operand::y) = 4096;
  const auto report = runtime.run(spec, arguments);
  if (!report) return fail(report.error());
  std::printf("%d tasks, y[0] = %.1f\n", threads->tasks, headnorm::float_from_bf16(y[0]));
}
