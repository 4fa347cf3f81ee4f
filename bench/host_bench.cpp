// Host kernels beside a plain copy and the same maths left to the loop vectoriser, interleaved in one run on one thread.
//
//   host_bench [--rounds N]
//
// Three cases: wide-vit-4096 with 12,608 rows in bf16 and in f32 (operands out of cache), and bf16 held in L2. For each, all plans
// of the search space are screened; the best is then timed afresh, in rounds that shuffle kernel, copy and loop, so that the
// figures printed did not choose it. Ratios are medians over rounds of time(copy or loop) / time(kernel) within one round.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/loop_baseline.h"
#include "generator/generator.h"
#include "runtime/device.h"
#include "tuner/host_copy.h"
#include "tuner/search_space.h"

namespace headnorm::bench {
namespace {

constexpr int kScreeningRounds = 3;
constexpr std::size_t kFinalists = 6;

struct Case {
  const char* name;
  Dtype dtype;
  std::int64_t rows;
  int launches;  // of one timing: more where a launch is short
};

template <class T>
T value_or_exit(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  fmt::print(stderr, "error: {}\nremedy: {}\n", result.error().message, result.error().remedy);
  std::exit(3);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double time_us(int launches, const std::function<void()>& launch) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) launch();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / launches;
}

// x random normal with outlier channels, gamma near 1, y written once so that its pages exist.
struct Tensors {
  Buffer x, gamma, y;
  LaunchArguments arguments;
};

Tensors make_tensors(Device& device, const KernelSpec& spec, std::int64_t rows) {
  const auto size = static_cast<std::size_t>(size_bytes(spec.x_dtype));
  const auto count = static_cast<std::size_t>(rows * spec.width);
  Tensors t{value_or_exit(device.allocate(count * size)),
            value_or_exit(device.allocate(static_cast<std::size_t>(spec.width) * size)),
            value_or_exit(device.allocate(count * size)),
            {}};
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> pool(1 << 16);
  for (float& value : pool) value = normal(random);
  for (std::size_t i = 0; i < count; ++i) {
    const bool outlier = i % static_cast<std::size_t>(spec.width) % 1021 == 17;
    store_element(static_cast<char*>(t.x.address()) + i * size, spec.x_dtype,
                  pool[random() % pool.size()] * (outlier ? 60.0f : 1.0f));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(spec.width); ++i)
    store_element(static_cast<char*>(t.gamma.address()) + i * size, spec.x_dtype, 1.0f + 0.1f * pool[i]);
  std::memset(t.y.address(), 1, t.y.bytes());
  t.arguments.rows = rows;
  t.arguments.address(Operand::x) = t.x.address();
  t.arguments.address(Operand::gamma) = t.gamma.address();
  t.arguments.address(Operand::y) = t.y.address();
  t.arguments.stride(Operand::x) = t.arguments.stride(Operand::y) = spec.width;
  return t;
}

struct Candidate {
  Plan plan;
  std::shared_ptr<const LoadedKernel> kernel;
  std::vector<double> times;
};

// The candidates with the `keep` smallest median times after `rounds` interleaved rounds.
void screen(std::vector<Candidate>& candidates, std::size_t keep, int rounds, const std::function<double(const Candidate&)>& time) {
  for (Candidate& candidate : candidates) candidate.times.clear();
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& candidate : candidates) candidate.times.push_back(time(candidate));
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return median(a.times) < median(b.times); });
  if (candidates.size() > keep) candidates.resize(keep);
}

void run_loop(const KernelSpec& spec, const Tensors& t) {
  const std::int64_t rows = t.arguments.rows;
  const auto eps = static_cast<float>(spec.eps);
  if (spec.x_dtype == Dtype::f32) {
    loop_mh_rmsnorm(static_cast<const float*>(t.x.address()), static_cast<const float*>(t.gamma.address()),
                    static_cast<float*>(t.y.address()), rows, spec.width, spec.head_size, eps);
  } else {
    loop_mh_rmsnorm(static_cast<const std::uint16_t*>(t.x.address()), static_cast<const std::uint16_t*>(t.gamma.address()),
                    static_cast<std::uint16_t*>(t.y.address()), rows, spec.width, spec.head_size, eps);
  }
}

bool run_clang_loop(const KernelSpec& spec, const Tensors& t) {
  return loop_mh_rmsnorm_clang(t.x.address(), t.gamma.address(), t.y.address(), t.arguments.rows, spec.width, spec.head_size,
                               static_cast<float>(spec.eps), spec.x_dtype == Dtype::bf16);
}

void run_case(Device& device, CodegenBackend& backend, const Case& c, int rounds) {
  KernelSpec spec;
  spec.width = 4096;
  spec.head_size = 256;
  spec.x_dtype = spec.y_dtype = spec.weight_dtype = c.dtype;
  spec = value_or_exit(make_spec(spec));
  const Tensors t = make_tensors(device, spec, c.rows);

  auto load = [&](const std::vector<Plan>& plans) {
    std::vector<Candidate> candidates;
    for (const Plan& plan : plans) {
      const Artifact artifact = value_or_exit(backend.compile(plan));
      candidates.push_back({plan, value_or_exit(device.load(artifact, plan)), {}});
    }
    return candidates;
  };
  auto time_kernel = [&](const Candidate& candidate) {
    return time_us(c.launches, [&] { (void)value_or_exit<Nothing>(device.launch(*candidate.kernel, t.arguments)); });
  };
  std::vector<Candidate> candidates = load(value_or_exit(build_search_space(spec, device.info().target)).plans);
  const std::size_t screened = candidates.size();
  screen(candidates, kFinalists, kScreeningRounds, time_kernel);
  screen(candidates, 2, 3 * kScreeningRounds, time_kernel);
  for (const Candidate& refined : load(refine(candidates.front().plan))) candidates.push_back(refined);
  screen(candidates, 3, 3 * kScreeningRounds, time_kernel);
  screen(candidates, 1, 5 * kScreeningRounds, time_kernel);
  const Candidate& best = candidates.front();

  std::vector<double> kernel_us, over_copy, over_loop, over_clang;
  const bool has_clang = run_clang_loop(spec, t);
  std::mt19937 random(11);
  for (int round = 0; round < rounds; ++round) {
    double kernel = 0, copy = 0, loop = 0, clang = 0;
    std::vector<std::function<void()>> turn = {
        [&] { kernel = time_kernel(best); },
        [&] {
          copy = time_us(c.launches, [&] { stream_copy(t.y.address(), t.x.address(), static_cast<std::int64_t>(t.x.bytes())); });
        },
        [&] { loop = time_us(c.launches, [&] { run_loop(spec, t); }); },
        [&] { clang = time_us(c.launches, [&] { run_clang_loop(spec, t); }); },
    };
    std::shuffle(turn.begin(), turn.end(), random);
    for (const auto& step : turn) step();
    kernel_us.push_back(kernel);
    over_copy.push_back(copy / kernel);
    over_loop.push_back(loop / kernel);
    over_clang.push_back(clang / kernel);
  }
  const double bytes = static_cast<double>(minimum_traffic(spec).total_bytes(c.rows));
  fmt::print("{:<18} {:>6} rows {:>8.1f} us {:>5.1f} GB/s  {:>5.2f} x copy  {:>5.2f} x loop  {} x clang loop\n    best of {}: {}\n",
             c.name, c.rows, median(kernel_us), bytes / median(kernel_us) / 1e3, median(over_copy), median(over_loop),
             has_clang ? fmt::format("{:.2f}", median(over_clang)) : "-", screened, to_text(best.plan.schedule));
}

int run(int argc, char** argv) {
  int rounds = 21;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
      rounds = std::max(1, std::atoi(argv[++i]));
    else {
      fmt::print(stderr, "usage: host_bench [--rounds N]\n");
      return 2;
    }
  }
  const std::unique_ptr<Device> device = value_or_exit(make_host_device(1));
  const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
  fmt::print("{}, {}, one thread, medians of {} rounds; copy: non-temporal, same tensors; loop: -O3 -march=native -ffast-math\n",
             device->info().name, to_text(device->info().target), rounds);
  const Case cases[] = {{"bf16 out of cache", Dtype::bf16, 12608, 1},
                        {"f32 out of cache", Dtype::f32, 12608, 1},
                        {"bf16 in L2", Dtype::bf16, 32, 200}};
  for (const Case& c : cases) run_case(*device, *backend, c, rounds);
  return 0;
}

}  // namespace
}  // namespace headnorm::bench

int main(int argc, char** argv) { return headnorm::bench::run(argc, argv); }
