// Kernels that others wrote, compiled by nvcc: reductions and scans of CCCL give right results under every order of warps.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/emulator/run_ptx.h"
#include "tests/support/temporary_directory.h"

namespace headnorm::emulator::test {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// "" where nvcc cannot compile it.
std::string compile(const char* source, const char* architecture) {
  const headnorm::test::TemporaryDirectory directory;
  const auto output = directory.path() / "kernels.ptx";
  const std::string command = fmt::format("'{}' -std=c++17 -ptx -arch={} -o '{}' '{}' > '{}' 2>&1", HEADNORM_NVCC, architecture,
                                          output.string(), source, (directory.path() / "log").string());
  if (std::system(command.c_str()) != 0) return "";
  return read_file(output);
}

struct Shape {
  std::string kind, type;
  std::uint32_t threads = 0;
};

// "warp_scan_f32_16": its last words say what it is.
Shape parse_name(const std::string& name) {
  std::vector<std::string> words;
  std::stringstream stream(name);
  for (std::string word; std::getline(stream, word, '_');) words.push_back(word);
  return {words[words.size() - 3], words[words.size() - 2], static_cast<std::uint32_t>(std::stoul(words.back()))};
}

// Whole numbers, so that every order of adding gives the same sum.
template <class T>
void check(Bench& bench, const Module& module, const std::string& name, const Shape& shape) {
  constexpr std::uint32_t kBlocks = 3;
  std::vector<T> input;
  for (std::uint32_t i = 0; i < kBlocks * shape.threads; ++i) input.push_back(static_cast<T>((i * 7919) % 23) - 5);
  for (Order order : {Order::forward, Order::reverse, Order::random}) {
    LaunchOptions options;
    options.order = order;
    const std::uint64_t in = bench.buffer_of(input), out = bench.buffer(input.size() * sizeof(T));
    const LaunchResult result = bench.device.launch(module, name, shape_of(kBlocks, shape.threads),
                                                    pack_parameters(module.facts(name), {in, out}), options);
    ASSERT_EQ(fault_text(result), "");
    const auto got = bench.values<T>(out, input.size());
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      T sum = 0;
      for (std::uint32_t i = block * shape.threads; i < (block + 1) * shape.threads; ++i) {
        sum += input[i];
        if (shape.kind == "scan") {
          ASSERT_EQ(got[i], sum) << name << " at " << i;
        }
      }
      if (shape.kind == "reduce") {
        ASSERT_EQ(got[block], sum) << name << " block " << block;
      }
    }
  }
}

class Nvcc : public ::testing::TestWithParam<const char*> {};

TEST_P(Nvcc, ReductionsAndScansOfCcclAreRight) {
  if (std::string(HEADNORM_NVCC).empty()) GTEST_SKIP() << "nvcc is not installed";
  const std::string ptx = compile(HEADNORM_CCCL_KERNELS, GetParam());
  if (ptx.empty()) GTEST_SKIP() << "nvcc does not compile CCCL for " << GetParam();
  Bench bench(Model::h200);
  const auto module = bench.device.load(ptx);
  ASSERT_TRUE(module.ok()) << module.message();
  ASSERT_EQ((*module)->kernel_names().size(), 9u);
  for (const std::string& name : (*module)->kernel_names()) {
    const Shape shape = parse_name(name);
    if (shape.type == "f32") check<float>(bench, **module, name, shape);
    if (shape.type == "f64") check<double>(bench, **module, name, shape);
    if (shape.type == "i32") check<std::int32_t>(bench, **module, name, shape);
    if (shape.type == "i64") check<std::int64_t>(bench, **module, name, shape);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Nvcc, ::testing::Values("sm_80", "sm_90"));

}  // namespace
}  // namespace headnorm::emulator::test
