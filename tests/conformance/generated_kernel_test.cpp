// Kernels of the real compiler through the runtime: loaded, damaged, divided among threads, stored, and served without a compiler.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <vector>

#include "generator/generator.h"
#include "runtime/headnorm.h"
#include "runtime/host/elf_loader.h"
#include "tests/fixtures/emulated_device.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

constexpr const char* kSpec = "width=256,head_size=64,x=f32,y=f32,weight=none,eps=1e-06";

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
         {kSpec, "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06",
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
  const auto artifact = compile(*backend, kSpec, HostIsa::x86_64_v3);
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

class GeneratedKernel : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 3000, kWidth = 256;  // 6 MB of traffic: shares for five threads

  void SetUp() override {
    auto spec = parse_spec(kSpec);
    ASSERT_TRUE(spec.ok());
    spec_ = *spec;
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    x_.resize(kRows * kWidth);
    for (float& value : x_) value = normal(random);
  }

  static std::unique_ptr<Device> device(int threads) {
    auto made = make_host_device(threads);
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }
  std::unique_ptr<Database> database() {
    auto opened = Database::open(directory_.path() / "db");
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(*opened);
  }

  // y of all rows, from a tensor that begins `shift` elements into an aligned one.
  std::vector<float> run(Runtime& runtime, Device& on, std::size_t shift = 0) {
    const std::size_t bytes = x_.size() * sizeof(float);
    auto x = on.allocate(bytes), memory = on.allocate(bytes + shift * sizeof(float));
    EXPECT_TRUE(x.ok() && memory.ok());
    EXPECT_TRUE(on.copy_in(x->address(), x_.data(), bytes).ok());
    LaunchArguments arguments;
    arguments.rows = kRows;
    arguments.address(Operand::x) = x->address();
    arguments.address(Operand::y) = static_cast<float*>(memory->address()) + shift;
    arguments.stride(Operand::x) = arguments.stride(Operand::y) = kWidth;
    const auto report = runtime.run(spec_, arguments);
    EXPECT_TRUE(report.ok()) << report.error().message;
    if (report.ok()) last_report_ = *report;
    std::vector<float> y(x_.size());
    const auto copied = on.copy_out(y.data(), arguments.address(Operand::y), bytes);
    EXPECT_TRUE(copied.ok()) << copied.error().message;
    return y;
  }

  // Not the default one.
  static Schedule tuned_schedule(const Target& target) {
    if (target.kind == TargetKind::gpu) return GpuSchedule{.lanes = 16, .vector_elements = 4, .block_threads = 256};
    HostSchedule schedule;
    schedule.block_bytes = 2048;
    return schedule;
  }

  // A record of this machine with the compiled kernel beside it, as a search leaves it.
  Record publish(Database& to, const DeviceInfo& info, std::int64_t rows) {
    const auto plan = make_plan(spec_, tuned_schedule(info.target), info.target);
    const auto artifact = backend_->compile(*plan);
    const auto kernel = to.store_kernel(*artifact);
    EXPECT_TRUE(kernel.ok());
    Record record;
    record.id = record_id(spec_, rows, info, CachePolicy::cold);
    record.spec = plan->spec;
    record.rows = rows;
    record.device = info;
    record.schedule = plan->schedule;
    record.time = {10, 9, 11, 5};
    record.bytes = minimum_traffic(spec_).total_bytes(rows);
    record.search = "exhaustive";
    record.created = "2026-01-01T00:00:00Z";
    record.tool = "headnorm test";
    record.candidates = {1, 1, 1, {}};
    record.kernel = *kernel;
    const auto published = to.publish(record);
    EXPECT_TRUE(published.ok()) << published.error().message;
    return record;
  }

  testing::TemporaryDirectory directory_;
  KernelSpec spec_;
  std::vector<float> x_;
  std::unique_ptr<CodegenBackend> backend_ = make_llvm_backend();
  LaunchReport last_report_;
};

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
