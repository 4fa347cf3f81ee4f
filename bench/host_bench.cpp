// Host kernels beside a plain copy and the same maths left to the loop vectoriser, interleaved in one run on one thread.
//
//   host_bench [--rounds N] [--small-heads]
//
// Three cases: wide-vit-4096 with 12,608 rows in bf16 and in f32 (operands out of cache), and bf16 held in L2. For each, all plans
// of the search space are screened; the best is then timed afresh, in rounds that shuffle kernel, copy and loop, so that the
// figures printed did not choose it. Ratios are medians over rounds of time(copy or loop) / time(kernel) within one round.
//
// --small-heads: default schedules for heads of 8 to 80 elements in rows of about 1024, in L2 and out of cache, beside the same
// schedule with heads=1. What stays in L2 is stored with store=plain.
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
  std::string name;
  Dtype dtype;
  std::int64_t width, head_size;
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

std::vector<Candidate> load(Device& device, CodegenBackend& backend, const std::vector<Plan>& plans) {
  std::vector<Candidate> candidates;
  for (const Plan& plan : plans) {
    const Artifact artifact = value_or_exit(backend.compile(plan));
    candidates.push_back({plan, value_or_exit(device.load(artifact, plan)), {}});
  }
  return candidates;
}

KernelSpec spec_of(const Case& c) {
  KernelSpec spec;
  spec.width = c.width;
  spec.head_size = c.head_size;
  spec.x_dtype = spec.y_dtype = spec.weight_dtype = c.dtype;
  return value_or_exit(make_spec(spec));
}

// Kernel times and, over the kernel's time in the same round, those of what it is compared with.
struct Comparison {
  std::vector<double> kernel_us, over_copy, over_loop, over_clang, over_other;
};

// `other`: one more kernel, or null.
Comparison compare(Device& device, const Case& c, const Tensors& t, const LoadedKernel& kernel, const LoadedKernel* other,
                   int rounds) {
  const KernelSpec& spec = kernel.plan().spec;
  auto time_kernel = [&](const LoadedKernel& timed) {
    return time_us(c.launches, [&] { (void)value_or_exit<Nothing>(device.launch(timed, t.arguments)); });
  };
  Comparison result;
  std::mt19937 random(11);
  for (int round = 0; round < rounds; ++round) {
    double own = 0, copy = 0, loop = 0, clang = 0, others = 0;
    std::vector<std::function<void()>> turn = {
        [&] { own = time_kernel(kernel); },
        [&] {
          copy = time_us(c.launches, [&] { stream_copy(t.y.address(), t.x.address(), static_cast<std::int64_t>(t.x.bytes())); });
        },
        [&] { loop = time_us(c.launches, [&] { run_loop(spec, t); }); },
        [&] { clang = time_us(c.launches, [&] { run_clang_loop(spec, t); }); },
        [&] { others = other == nullptr ? 0 : time_kernel(*other); },
    };
    std::shuffle(turn.begin(), turn.end(), random);
    for (const auto& step : turn) step();
    result.kernel_us.push_back(own);
    result.over_copy.push_back(copy / own);
    result.over_loop.push_back(loop / own);
    result.over_clang.push_back(clang / own);
    result.over_other.push_back(others / own);
  }
  return result;
}

void print_comparison(const Case& c, const KernelSpec& spec, const Comparison& result, bool has_clang) {
  const double bytes = static_cast<double>(minimum_traffic(spec).total_bytes(c.rows));
  fmt::print("{:<24} {:>6} rows {:>8.1f} us {:>5.1f} GB/s  {:>5.2f} x copy  {:>5.2f} x loop  {:>5} x clang loop", c.name, c.rows,
             median(result.kernel_us), bytes / median(result.kernel_us) / 1e3, median(result.over_copy), median(result.over_loop),
             has_clang ? fmt::format("{:.2f}", median(result.over_clang)) : "-");
}

void run_case(Device& device, CodegenBackend& backend, const Case& c, int rounds) {
  const KernelSpec spec = spec_of(c);
  const Tensors t = make_tensors(device, spec, c.rows);
  auto time_kernel = [&](const Candidate& candidate) {
    return time_us(c.launches, [&] { (void)value_or_exit<Nothing>(device.launch(*candidate.kernel, t.arguments)); });
  };
  std::vector<Candidate> candidates = load(device, backend, value_or_exit(build_search_space(spec, device.info().target)).plans);
  const std::size_t screened = candidates.size();
  screen(candidates, kFinalists, kScreeningRounds, time_kernel);
  screen(candidates, 2, 3 * kScreeningRounds, time_kernel);
  for (const Candidate& refined : load(device, backend, refine(candidates.front().plan))) candidates.push_back(refined);
  screen(candidates, 3, 3 * kScreeningRounds, time_kernel);
  screen(candidates, 1, 5 * kScreeningRounds, time_kernel);
  const Candidate& best = candidates.front();
  const bool has_clang = run_clang_loop(spec, t);
  print_comparison(c, spec, compare(device, c, t, *best.kernel, nullptr, rounds), has_clang);
  fmt::print("\n    best of {}: {}\n", screened, to_text(best.plan.schedule));
}

void run_default(Device& device, CodegenBackend& backend, const Case& c, int rounds) {
  const KernelSpec spec = spec_of(c);
  const Target target = device.info().target;
  const Tensors t = make_tensors(device, spec, c.rows);
  Plan plan = value_or_exit(make_plan(spec, default_schedule(spec, target), target));
  if (c.launches > 1) plan = value_or_exit(make_plan(spec, unaligned_schedule(plan), target));
  HostSchedule one_head = plan.host_schedule();
  one_head.heads = 1;
  if (!make_plan(spec, one_head, target).ok()) one_head.store = StoreKind::plain;
  const std::vector<Candidate> kernels = load(device, backend, {plan, value_or_exit(make_plan(spec, one_head, target))});
  const bool has_clang = run_clang_loop(spec, t);
  const Comparison result = compare(device, c, t, *kernels[0].kernel, kernels[1].kernel.get(), rounds);
  print_comparison(c, spec, result, has_clang);
  fmt::print("  {:>5.2f} x heads=1  {}\n", median(result.over_other), to_text(plan.schedule));
}

void run_small_heads(Device& device, CodegenBackend& backend, int rounds) {
  constexpr std::int64_t kInCacheBytes = 256 * 1024, kOutOfCacheBytes = 128 * 1024 * 1024;
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (std::int64_t head_size : {8, 16, 24, 32, 40, 64, 72, 80}) {
      const std::int64_t width = (1024 + 16 * head_size - 1) / (16 * head_size) * 16 * head_size;
      for (std::int64_t bytes : {kInCacheBytes, kOutOfCacheBytes}) {
        const bool in_cache = bytes == kInCacheBytes;
        const std::int64_t rows = bytes / (width * size_bytes(dtype));
        const std::string name = fmt::format("{} d={} {}", to_text(dtype), head_size, in_cache ? "in L2" : "out of cache");
        run_default(device, backend, {name, dtype, width, head_size, rows, in_cache ? 50 : 1}, rounds);
      }
    }
  }
}

int run(int argc, char** argv) {
  int rounds = 21;
  bool small_heads = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--small-heads") == 0) {
      small_heads = true;
    } else {
      fmt::print(stderr, "usage: host_bench [--rounds N] [--small-heads]\n");
      return 2;
    }
  }
  const std::unique_ptr<Device> device = value_or_exit(make_host_device(1));
  const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
  fmt::print("{}, {}, one thread, medians of {} rounds; copy: non-temporal, same tensors; loop: -O3 -march=native -ffast-math\n",
             device->info().name, to_text(device->info().target), rounds);
  if (small_heads) {
    run_small_heads(*device, *backend, rounds);
    return 0;
  }
  const Case cases[] = {{"bf16 out of cache", Dtype::bf16, 4096, 256, 12608, 1},
                        {"f32 out of cache", Dtype::f32, 4096, 256, 12608, 1},
                        {"bf16 in L2", Dtype::bf16, 4096, 256, 32, 200}};
  for (const Case& c : cases) run_case(*device, *backend, c, rounds);
  return 0;
}

}  // namespace
}  // namespace headnorm::bench

int main(int argc, char** argv) { return headnorm::bench::run(argc, argv); }
