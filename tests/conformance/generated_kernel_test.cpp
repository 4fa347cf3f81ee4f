// Kernels of the real compiler through the runtime: loaded, damaged, divided among threads, stored, and served without a compiler.
#include "tests/conformance/generated_kernel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "runtime/host/elf_loader.h"
#include "tests/fixtures/emulated_device.h"

namespace headnorm {
namespace {

Result<Artifact> compile(CodegenBackend& backend, const char* spec_text, HostIsa isa) {
  HEADNORM_TRY(const KernelSpec spec, parse_spec(spec_text));
  const Target target = make_host_target(isa);
  HEADNORM_TRY(const Plan plan, make_plan(spec, default_schedule(spec, target), target));
  return backend.compile(plan);
}

TEST(GeneratedObjects, LoadForEveryInstructionSet) {
  const auto backend = make_llvm_backend();
  for (HostIsa isa : kHostIsas) {
    for (const char* spec :
         {kGeneratedSpec, "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06",
          "width=1155,head_size=77,x=bf16,y=f32,weight=head:f32,eps=1e-06,residual=add:f32,gate=seednorm,seed_heads=1"}) {
      const auto artifact = compile(*backend, spec, isa);
      ASSERT_TRUE(artifact.ok()) << artifact.error().message;
      const auto image = host::load_elf_object(artifact->bytes, artifact->entry);
      const bool other_machine = (isa == HostIsa::aarch64) != (kBaselineIsa == HostIsa::aarch64);
      ASSERT_EQ(image.ok(), !other_machine) << spec << ": " << image.error().message;
      if (other_machine) {
        EXPECT_NE(image.error().message.find("this processor is"), std::string::npos) << image.error().message;
      }
    }
  }
}

TEST(GeneratedObjects, DamageIsAnErrorOrUnseenButNeverACrash) {
  const auto backend = make_llvm_backend();
  const auto artifact = compile(*backend, kGeneratedSpec, HostIsa::x86_64_v3);
  ASSERT_TRUE(artifact.ok());
  const std::string& whole = artifact->bytes;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<char> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(host::load_elf_object({part.data(), part.size()}, artifact->entry).ok()) << size;
  }
  int errors = 0;
  std::vector<char> object(whole.begin(), whole.end());
  for (char& byte : object) {
    for (int pattern : {0x01, 0x80, 0xff}) {
      const char right = byte;
      byte = static_cast<char>(right ^ pattern);
      errors += host::load_elf_object({object.data(), object.size()}, artifact->entry).ok() ? 0 : 1;
      byte = right;
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_TRUE(host::load_elf_object({object.data(), object.size()}, artifact->entry).ok());
}

TEST_F(GeneratedKernel, ResultDoesNotDependOnThreads) {
  std::vector<float> expected;
  for (int threads : {1, 2, 5}) {
    const auto on = device(threads);
    Runtime runtime(*on, nullptr, backend_.get());
    const std::vector<float> y = run(runtime, *on);
    if (expected.empty()) expected = y;
    EXPECT_EQ(y, expected) << threads;
  }
}

// What holds of kernels that are served on any device.
struct Place {
  const char* name;
  std::function<Result<std::unique_ptr<Device>>()> make;
};
void PrintTo(const Place& place, std::ostream* stream) { *stream << place.name; }

class ServedKernel : public GeneratedKernel, public ::testing::WithParamInterface<Place> {
 protected:
  static std::unique_ptr<Device> make_device() {
    auto made = GetParam().make();
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(*made);
  }
};

TEST_P(ServedKernel, AProcessWithoutACompilerServesWhatWasTuned) {
  const auto on = make_device();
  std::vector<float> expected, expected_unaligned;
  Record record;
  {
    const auto db = database();
    record = publish(*db, on->info(), kRows);
    Runtime runtime(*on, db.get(), backend_.get());
    expected = run(runtime, *on);
    EXPECT_EQ(last_report_.record, record.id);
    expected_unaligned = run(runtime, *on, 1);
  }
  const auto db = database();
  Runtime runtime(*on, db.get(), nullptr);
  EXPECT_EQ(run(runtime, *on), expected);
  EXPECT_EQ(last_report_.served, Served::exact);
  EXPECT_EQ(last_report_.schedule, record.schedule);
  EXPECT_EQ(run(runtime, *on, 1), expected_unaligned) << "the unaligned twin was stored when it was compiled";
  EXPECT_EQ(expected_unaligned, expected);
}

TEST_P(ServedKernel, ADamagedStoredKernelIsCompiledAgain) {
  const auto on = make_device();
  std::string name;
  {
    const auto db = database();
    const Record record = publish(*db, on->info(), kRows);
    name = record.kernel.sha256 + "." + file_extension(record.kernel.kind);
  }
  const auto file = directory_.path() / "db" / "kernels" / name;
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const auto db = database();
  Runtime without(*on, db.get(), nullptr);
  EXPECT_FALSE(without.prepare(spec_, kRows).ok()) << "never a wrong kernel";
  Runtime runtime(*on, db.get(), backend_.get());
  run(runtime, *on);
  EXPECT_EQ(last_report_.served, Served::exact);
}

TEST_P(ServedKernel, WithoutACompilerWhatIsNotStoredIsAnErrorAtOnce) {
  const auto on = make_device();
  const auto db = database();
  publish(*db, on->info(), kRows);
  Runtime runtime(*on, db.get(), backend_.get(), JitMode::forbidden);
  run(runtime, *on);
  EXPECT_EQ(last_report_.served, Served::exact);
  KernelSpec unknown = spec_;
  unknown.eps = 1e-5;
  const auto refused = runtime.prepare(unknown, kRows);
  ASSERT_FALSE(refused.ok());
  EXPECT_FALSE(refused.error().remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(Places, ServedKernel,
                         ::testing::Values(Place{"host", [] { return make_host_device(2); }},
                                           Place{"emulator", [] { return fixtures::make_emulated_device("h200"); }}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_F(GeneratedKernel, TheExampleRunsATunedKernel) {
  {
    const auto db = database();
    publish(*db, device(0)->info(), 4);
  }
  const std::filesystem::path output = directory_.path() / "output";
  const auto status_of = [&](std::string database_path) {
    std::string program = HEADNORM_RUN_TUNED;
    char* arguments[] = {program.data(), database_path.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    pid_t child = 0;
    EXPECT_EQ(::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  ASSERT_EQ(status_of((directory_.path() / "db").string()), 0);
  std::ifstream file(output);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("served: exact\n"), std::string::npos) << text;
  EXPECT_NE(text.find("y[0]: 1.000000\n"), std::string::npos) << text;
  EXPECT_EQ(status_of((directory_.path() / "absent").string()), 1);
}

}  // namespace
}  // namespace headnorm
