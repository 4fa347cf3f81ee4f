// What ptxas makes of both compilers' PTX for the kernels of the presets: LLVM's code is at most 5 % longer than NVRTC's of the
// CUDA C of the same plan.
#include <elf.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "cli/presets.h"
#include "core/artifact.h"
#include "generator/generator.h"
#include "tests/support/temporary_directory.h"

namespace headnorm::test {
namespace {

constexpr double kMostLonger = 1.05;

enum class Variant { plain, residual_and_gate };

struct Case {
  Variant variant;
  const char* target;
};

std::string case_name(const testing::TestParamInfo<Case>& test) {
  return fmt::format("{}_{}", test.param.variant == Variant::plain ? "plain" : "residual_and_gate", test.param.target);
}

// Plans of the presets with their default schedules: of each head size one with a power of two of heads and one with another
// number, which take different addresses.
std::vector<Plan> preset_plans(const Case& test) {
  const Target target = *parse_target(test.target);
  std::map<std::pair<std::int64_t, bool>, KernelSpec> specs;
  for (const cli::Preset& preset : cli::presets()) {
    Result<KernelSpec> spec = cli::preset_spec(preset);
    if (!spec.ok()) continue;
    if (test.variant == Variant::residual_and_gate) {
      spec->residual = Residual::add;
      spec->gate = Gate::seednorm;
      spec->seed_heads = spec->heads();
    }
    specs.emplace(std::pair(spec->head_size, std::has_single_bit(static_cast<std::uint64_t>(spec->heads()))), *spec);
  }
  std::vector<Plan> plans;
  for (const auto& [kind, spec] : specs) plans.push_back(*make_plan(*make_spec(spec), default_schedule(spec, target), target));
  return plans;
}

template <typename T>
T read_at(const std::string& bytes, std::size_t offset) {
  T value{};
  if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Of 16 bytes each; without the padding, a branch to itself and NOPs.
std::size_t count_instructions(const std::string& code) {
  constexpr std::size_t kBytes = 16;
  constexpr std::uint16_t kOpcode = 0xfff, kNop = 0x918, kBranch = 0x947;
  std::size_t count = code.size() / kBytes;
  for (; count > 0; --count) {
    const int opcode = read_at<std::uint16_t>(code, (count - 1) * kBytes) & kOpcode;
    if (opcode != kNop && opcode != kBranch) break;
  }
  return count;
}

// Of each kernel of a cubin, by its entry.
std::map<std::string, std::size_t> count_kernels(const std::string& cubin) {
  std::map<std::string, std::size_t> counts;
  const auto header = read_at<Elf64_Ehdr>(cubin, 0);
  const auto section = [&](std::size_t i) { return read_at<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr)); };
  const Elf64_Shdr names = section(header.e_shstrndx);
  const std::string code_name = ".text.";
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr code = section(i);
    const std::string name = cubin.c_str() + names.sh_offset + code.sh_name;
    if (name.starts_with(code_name))
      counts[name.substr(code_name.size())] = count_instructions(cubin.substr(code.sh_offset, code.sh_size));
  }
  return counts;
}

class SassLength : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (std::string(HEADNORM_PTXAS).empty()) GTEST_SKIP() << "ptxas is not installed: nothing makes SASS";
    auto opened = make_nvrtc_backend();
    if (!opened.ok()) GTEST_SKIP() << opened.error().message;
    nvrtc_ = std::move(*opened);
  }

  // SASS instructions of the kernels, all in one text.
  std::map<std::string, std::size_t> lengths(const std::vector<Plan>& plans, CodegenBackend& backend) const {
    std::string text;
    for (const Plan& plan : plans) {
      const Result<Artifact> artifact = backend.compile(plan);
      EXPECT_TRUE(artifact.ok()) << artifact.error().message;
      if (!artifact.ok()) return {};
      const std::string directives = ".address_size 64";
      const std::size_t begin = text.empty() ? 0 : artifact->bytes.find(directives) + directives.size();
      text += artifact->bytes.substr(begin);
    }
    const std::string ptx = path("kernels.ptx"), cubin = path("kernels.cubin"), log = path("log");
    std::ofstream(ptx) << text;
    const std::string architecture = processor_name(*parse_target(GetParam().target));
    const std::string command =
        fmt::format("'{}' -arch={} '{}' -o '{}' > '{}' 2>&1", HEADNORM_PTXAS, architecture, ptx, cubin, log);
    EXPECT_EQ(std::system(command.c_str()), 0) << read(log);
    return count_kernels(read(cubin));
  }

  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string path(const char* name) const { return (directory_.path() / name).string(); }

  TemporaryDirectory directory_;
  std::unique_ptr<CodegenBackend> llvm_ = make_llvm_backend(), nvrtc_;
};

TEST_P(SassLength, OfLlvmIsAtMostFivePercentAboveNvrtc) {
  const std::vector<Plan> plans = preset_plans(GetParam());
  EXPECT_GE(plans.size(), 10u);
  auto ours = lengths(plans, *llvm_), theirs = lengths(plans, *nvrtc_);
  for (const Plan& plan : plans) {
    const std::size_t of_llvm = ours[entry_name(plan)], of_nvrtc = theirs[entry_name(plan)];
    EXPECT_GT(of_llvm, 50u) << to_text(plan.spec);
    EXPECT_LE(static_cast<double>(of_llvm), kMostLonger * static_cast<double>(of_nvrtc))
        << of_llvm << " instructions against " << of_nvrtc << ": " << to_text(plan.spec) << " " << to_text(plan.schedule);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, SassLength,
                         testing::Values(Case{Variant::plain, "sm_80"}, Case{Variant::plain, "sm_90"},
                                         Case{Variant::plain, "sm_100"}, Case{Variant::residual_and_gate, "sm_80"},
                                         Case{Variant::residual_and_gate, "sm_90"}, Case{Variant::residual_and_gate, "sm_100"}),
                         case_name);

}  // namespace
}  // namespace headnorm::test
