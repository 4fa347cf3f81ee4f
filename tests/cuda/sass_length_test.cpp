// What ptxas makes of both compilers' PTX for the kernels of the presets: LLVM's code is at most 5 % longer than NVRTC's of the
// CUDA C of the same plan, and operations on pairs of f32 stay what they are in either.
#include <elf.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

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

// SASS of each kernel of a cubin, by its entry.
std::map<std::string, std::string> kernels_of(const std::string& cubin) {
  std::map<std::string, std::string> kernels;
  const auto header = read_at<Elf64_Ehdr>(cubin, 0);
  const auto section = [&](std::size_t i) { return read_at<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr)); };
  const Elf64_Shdr names = section(header.e_shstrndx);
  const std::string code_name = ".text.";
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr code = section(i);
    const std::string name = cubin.c_str() + names.sh_offset + code.sh_name;
    if (name.starts_with(code_name)) kernels[name.substr(code_name.size())] = cubin.substr(code.sh_offset, code.sh_size);
  }
  return kernels;
}

// Operations on two elements at a time.
struct PackedCounts {
  std::size_t add = 0, mul = 0, fma = 0;
  bool operator==(const PackedCounts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const PackedCounts& counts) {
  return out << fmt::format("add {}, mul {}, fma {}", counts.add, counts.mul, counts.fma);
}

PackedCounts packed_of_ptx(const std::string& ptx) {
  PackedCounts counts;
  const std::regex operation(R"(\b(add|mul|fma)\.rn\.f32x2\b)");
  for (std::sregex_iterator it(ptx.begin(), ptx.end(), operation), end; it != end; ++it)
    ++((*it)[1] == "add" ? counts.add : (*it)[1] == "mul" ? counts.mul : counts.fma);
  return counts;
}

// Of sm_100. The low bits of an opcode are the operation, the others the kinds of its operands.
PackedCounts packed_of_sass(const std::string& code) {
  constexpr std::size_t kBytes = 16;
  constexpr int kOperation = 0x1ff, kAdd = 0x04b, kMul = 0x04a, kFma = 0x049;
  PackedCounts counts;
  for (std::size_t at = 0; at + kBytes <= code.size(); at += kBytes) {
    const int operation = read_at<std::uint16_t>(code, at) & kOperation;
    counts.add += operation == kAdd ? 1 : 0;
    counts.mul += operation == kMul ? 1 : 0;
    counts.fma += operation == kFma ? 1 : 0;
  }
  return counts;
}

class Sass : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(HEADNORM_PTXAS).empty()) GTEST_SKIP() << "ptxas is not installed: nothing makes SASS";
    auto opened = make_nvrtc_backend();
    if (opened.ok()) nvrtc_ = std::move(*opened);
  }

  static std::string compile(const Plan& plan, CodegenBackend& backend) {
    const Result<Artifact> artifact = backend.compile(plan);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    return artifact.ok() ? artifact->bytes : "";
  }

  // SASS of the kernels of one target by their entries, all assembled in one text.
  std::map<std::string, std::string> assemble(const std::vector<Plan>& plans, CodegenBackend& backend) const {
    std::string text;
    for (const Plan& plan : plans) {
      const std::string kernel = compile(plan, backend);
      if (kernel.empty()) return {};
      const std::string directives = ".address_size 64";
      text += kernel.substr(text.empty() ? 0 : kernel.find(directives) + directives.size());
    }
    const std::string ptx = path("kernels.ptx"), cubin = path("kernels.cubin"), log = path("log");
    std::ofstream(ptx) << text;
    const std::string architecture = processor_name(plans.front().target);
    const std::string command =
        fmt::format("'{}' -arch={} '{}' -o '{}' > '{}' 2>&1", HEADNORM_PTXAS, architecture, ptx, cubin, log);
    EXPECT_EQ(std::system(command.c_str()), 0) << read(log);
    return kernels_of(read(cubin));
  }

  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string path(const char* name) const { return (directory_.path() / name).string(); }

  TemporaryDirectory directory_;
  std::unique_ptr<CodegenBackend> llvm_ = make_llvm_backend(), nvrtc_;  // the latter may be absent
};

class SassLength : public Sass, public testing::WithParamInterface<Case> {};

TEST_P(SassLength, OfLlvmIsAtMostFivePercentAboveNvrtc) {
  if (nvrtc_ == nullptr) GTEST_SKIP() << "NVRTC is not installed: there is nothing to compare with";
  const std::vector<Plan> plans = preset_plans(GetParam());
  EXPECT_GE(plans.size(), 10u);
  auto ours = assemble(plans, *llvm_), theirs = assemble(plans, *nvrtc_);
  for (const Plan& plan : plans) {
    const std::size_t of_llvm = count_instructions(ours[entry_name(plan)]);
    const std::size_t of_nvrtc = count_instructions(theirs[entry_name(plan)]);
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

// A fused product and sum would round once where the program rounds twice; what it takes apart again would be no gain.
class PackedSass : public Sass, public testing::WithParamInterface<const char*> {
 protected:
  static std::vector<Plan> plans() {
    std::vector<Plan> plans;
    for (const auto& [spec, schedule] : kKernels)
      plans.push_back(*make_plan(*parse_spec(spec), *parse_schedule(schedule), *parse_target("sm_100")));
    return plans;
  }

 private:
  static constexpr std::pair<const char*, const char*> kKernels[] = {
      {"width=4096,head_size=256", "lanes=32,vector=8"},
      {"width=4096,head_size=256,residual=add:bf16,gate=seednorm,weight_offset=1", "lanes=32,vector=8"},
      {"width=4096,head_size=256,residual=add:bf16,residual_scale=0.5", "lanes=32,vector=8"},
      {"width=4096,head_size=256,x=f32,y=f32,weight=channel:f32,residual=add:f32,residual_scale=0.7", "lanes=32,vector=4"},
      {"width=4096,head_size=256,residual=add:bf16,residual_scale=0.5,gate=seednorm,norm_input=unrounded,mode=safe-range",
       "lanes=32,vector=8"},
      {"width=4096,head_size=256,rounding=llama,gate=seednorm", "lanes=32,vector=8,groups=16,grid=persistent,weights=before"},
      {"width=65536,head_size=65536,residual=add:bf16", "lanes=512,vector=8,block=512,residency=shared"},
  };
};

TEST_P(PackedSass, HasTheOperationsOfThePtxAndNoOthers) {
  CodegenBackend* const backend = std::string(GetParam()) == "llvm" ? llvm_.get() : nvrtc_.get();
  if (backend == nullptr) GTEST_SKIP() << "NVRTC is not installed: nothing compiles the CUDA C";
  auto kernels = assemble(plans(), *backend);
  for (const Plan& plan : plans()) {
    SCOPED_TRACE(to_text(plan.spec) + " " + to_text(plan.schedule));
    const PackedCounts in_ptx = packed_of_ptx(compile(plan, *backend));
    EXPECT_GT(in_ptx.mul, 0u);
    EXPECT_EQ(packed_of_sass(kernels[entry_name(plan)]), in_ptx);
    if (plan.spec.residual_scale != 1) {
      EXPECT_EQ(in_ptx.add, 0u);  // of a packed product, an assembler would fuse it
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Compilers, PackedSass, testing::Values("llvm", "nvrtc"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace headnorm::test
