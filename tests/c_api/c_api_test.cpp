// The C API through dlopen, as a program sees it that was built without headnorm: handles, errors, structs of other versions,
// launches. Kernels come from a database that this test fills with a stand-in for a compiler.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "runtime/c_api/headnorm_c.h"
#include "runtime/database/shipped_tables.h"
#include "runtime/database/tuned_table.h"
#include "runtime/headnorm.h"
#include "tests/fixtures/fake_backend.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

constexpr std::int64_t kRows = 4, kWidth = 96;

// The functions of the library as it was opened.
struct Library {
  explicit Library(const char* path) : handle(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {}
  void* handle;
#define HEADNORM_FUNCTION(name) \
  decltype(&headnorm_##name) name = reinterpret_cast<decltype(&headnorm_##name)>(get("headnorm_" #name))
  HEADNORM_FUNCTION(last_error);
  HEADNORM_FUNCTION(last_remedy);
  HEADNORM_FUNCTION(version);
  HEADNORM_FUNCTION(has_compiler);
  HEADNORM_FUNCTION(spec_parse);
  HEADNORM_FUNCTION(spec_text);
  HEADNORM_FUNCTION(spec_release);
  HEADNORM_FUNCTION(device_open);
  HEADNORM_FUNCTION(device_open_executor);
  HEADNORM_FUNCTION(device_get_info);
  HEADNORM_FUNCTION(device_synchronize);
  HEADNORM_FUNCTION(device_copy_in);
  HEADNORM_FUNCTION(device_copy_out);
  HEADNORM_FUNCTION(device_release);
  HEADNORM_FUNCTION(buffer_create);
  HEADNORM_FUNCTION(buffer_address);
  HEADNORM_FUNCTION(buffer_release);
  HEADNORM_FUNCTION(database_open);
  HEADNORM_FUNCTION(database_digest);
  HEADNORM_FUNCTION(database_release);
  HEADNORM_FUNCTION(runtime_create);
  HEADNORM_FUNCTION(runtime_release);
  HEADNORM_FUNCTION(runtime_look_up);
  HEADNORM_FUNCTION(runtime_prepare);
  HEADNORM_FUNCTION(runtime_prepare_for);
  HEADNORM_FUNCTION(runtime_launch);
  HEADNORM_FUNCTION(runtime_warm);
#undef HEADNORM_FUNCTION

 private:
  void* get(const char* name) {
    void* const function = handle == nullptr ? nullptr : ::dlsym(handle, name);
    if (function == nullptr) ADD_FAILURE() << name << " is not in " << HEADNORM_SHARED_LIBRARY;
    return function;
  }
};

const Library& library() {
  static const Library opened(HEADNORM_SHARED_LIBRARY);
  return opened;
}

std::string last_error() { return library().last_error(); }

#define ASSERT_SUCCEEDS(call) ASSERT_EQ(call, HEADNORM_OK) << last_error() << "\n" << library().last_remedy()

void expect_error(headnorm_status status, headnorm_status wanted, const std::string& part) {
  EXPECT_EQ(status, wanted);
  EXPECT_NE(last_error().find(part), std::string::npos) << last_error();
  EXPECT_STRNE(library().last_remedy(), "");
}

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(library().handle, nullptr) << ::dlerror();
    fill_database();
    headnorm_device_options one = headnorm_device_options_init();
    one.threads = 1;
    ASSERT_SUCCEEDS(library().device_open("host", &one, &device_));
    ASSERT_SUCCEEDS(library().database_open(root_.c_str(), nullptr, &database_));
    ASSERT_SUCCEEDS(library().spec_parse(to_text(fixtures::norm_spec()).c_str(), &spec_));
  }
  void TearDown() override {
    library().spec_release(spec_);
    library().database_release(database_);
    library().device_release(device_);
  }

  // A record of kRows rows with its kernel, as tuning leaves it.
  void fill_database() {
    const auto device = make_host_device(1);
    const auto database = Database::open(root_);
    ASSERT_TRUE(device.ok() && database.ok());
    fixtures::FakeBackend backend(HEADNORM_FIXTURE_NORM);
    HostSchedule schedule;
    schedule.store = StoreKind::plain;
    const Plan plan = make_plan(fixtures::norm_spec(), schedule, (*device)->info().target).value();
    Record record;
    record.device = (*device)->info();
    record.spec = plan.spec;
    record.rows = kRows;
    record.id = record_id_ = record_id(record.spec, record.rows, record.device, record.policy);
    record.schedule = plan.schedule;
    record.time = {1, 1, 1, 1};
    record.kernel = (*database)->store_kernel(backend.compile(plan).value()).value();
    ASSERT_TRUE((*database)->publish(record).ok());
  }

  headnorm_runtime* make_runtime(int jit = HEADNORM_JIT_FORBIDDEN) {
    headnorm_runtime_options options = headnorm_runtime_options_init();
    options.jit = jit;
    headnorm_runtime* runtime = nullptr;
    EXPECT_EQ(library().runtime_create(device_, database_, &options, &runtime), HEADNORM_OK) << last_error();
    return runtime;
  }

  headnorm_arguments arguments() {
    headnorm_arguments arguments = headnorm_arguments_init();
    arguments.rows = kRows;
    arguments.x = x_.data();
    arguments.y = y_.data();
    return arguments;
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path root_ = directory_.path() / "db";
  std::string record_id_;
  std::vector<float> x_ = std::vector<float>(2 * kRows * kWidth, -4.0f), y_ = std::vector<float>(2 * kRows * kWidth);
  headnorm_device* device_ = nullptr;
  headnorm_database* database_ = nullptr;
  headnorm_spec* spec_ = nullptr;
};

TEST_F(CApi, FindsPreparesAndLaunches) {
  headnorm_runtime* const runtime = make_runtime();
  headnorm_choice choice = headnorm_choice_init();
  ASSERT_SUCCEEDS(library().runtime_look_up(runtime, spec_, kRows, &choice));
  EXPECT_STREQ(choice.served, "exact");
  EXPECT_EQ(choice.record, record_id_);
  EXPECT_NE(std::string(choice.schedule).find("store=plain"), std::string::npos) << choice.schedule;
  ASSERT_SUCCEEDS(library().runtime_look_up(runtime, spec_, kRows + 1, &choice));
  EXPECT_STREQ(choice.served, "nearest_rows");
  ASSERT_SUCCEEDS(library().runtime_prepare(runtime, spec_, kRows, nullptr));

  headnorm_arguments a = arguments();
  ASSERT_SUCCEEDS(library().runtime_prepare_for(runtime, spec_, &a, &choice));
  EXPECT_EQ(y_[0], 0);
  ASSERT_SUCCEEDS(library().runtime_launch(runtime, spec_, &a, &choice));
  EXPECT_STREQ(choice.served, "exact");
  for (std::size_t i = 0; i < y_.size(); ++i) ASSERT_EQ(y_[i], i < kRows * kWidth ? -1.0f : 0.0f) << i;
  library().runtime_release(runtime);
}

TEST_F(CApi, StridesAreOfEachTensor) {
  headnorm_runtime* const runtime = make_runtime();
  headnorm_arguments a = arguments();
  a.y_stride = 2 * kWidth;
  ASSERT_SUCCEEDS(library().runtime_launch(runtime, spec_, &a, nullptr));
  for (std::size_t i = 0; i < y_.size(); ++i) ASSERT_EQ(y_[i], i / kWidth % 2 == 0 ? -1.0f : 0.0f) << i;
  a.y_stride = kWidth - 1;
  expect_error(library().runtime_launch(runtime, spec_, &a, nullptr), HEADNORM_ERROR_USER, "stride");
  library().runtime_release(runtime);
}

TEST_F(CApi, WarmedItServesWithoutItsDatabase) {
  headnorm_runtime* const runtime = make_runtime();
  headnorm_warm_report report = headnorm_warm_report_init();
  char digest[HEADNORM_DIGEST_BYTES] = {};
  ASSERT_SUCCEEDS(library().database_digest(database_, digest));
  ASSERT_SUCCEEDS(library().runtime_warm(runtime, database_, digest, &report));
  EXPECT_EQ(report.records, 1);
  EXPECT_GE(report.kernels, 1);
  EXPECT_EQ(report.missing, 0);
  EXPECT_STREQ(report.digest, digest);
  std::filesystem::remove_all(root_);
  headnorm_arguments a = arguments();
  for (int i = 0; i < 100; ++i) ASSERT_SUCCEEDS(library().runtime_launch(runtime, spec_, &a, nullptr));
  EXPECT_EQ(y_[0], -1.0f);

  headnorm_spec* unknown = nullptr;
  ASSERT_SUCCEEDS(library().spec_parse("width=96,head_size=32,x=f32,y=f32,weight=none,eps=1e-05", &unknown));
  expect_error(library().runtime_launch(runtime, unknown, &a, nullptr), HEADNORM_ERROR_USER, "eps=1e-05");
  library().spec_release(unknown);
  library().runtime_release(runtime);
}

TEST_F(CApi, AnotherDigestThanExpectedIsRefused) {
  headnorm_runtime* const runtime = make_runtime();
  const std::string other(64, '0');
  expect_error(library().runtime_warm(runtime, database_, other.c_str(), nullptr), HEADNORM_ERROR_USER, other);
  library().runtime_release(runtime);
}

TEST_F(CApi, MissingKernelsAreAnErrorWithAReport) {
  std::filesystem::remove_all(root_ / "kernels");
  headnorm_runtime* const runtime = make_runtime();
  headnorm_warm_report report = headnorm_warm_report_init();
  expect_error(library().runtime_warm(runtime, database_, nullptr, &report), HEADNORM_ERROR_ENVIRONMENT, record_id_);
  EXPECT_EQ(report.records, 1);
  EXPECT_EQ(report.missing, 1);
  library().runtime_release(runtime);
}

TEST_F(CApi, AShapeThatIsLaunchedBeforeTheWarmingIsNoError) {
  headnorm_database* table = nullptr;  // with a better record than the one that is served by then
  const std::filesystem::path better = directory_.path() / "better";
  headnorm_runtime* const runtime = make_runtime();
  headnorm_arguments a = arguments();
  ++a.rows;
  ASSERT_SUCCEEDS(library().runtime_launch(runtime, spec_, &a, nullptr));
  {
    const auto from = Database::open(root_).value(), to = Database::open(better).value();
    Record record = from->find(record_id_).value().value();
    record.rows = a.rows;
    record.id = record_id(record.spec, record.rows, record.device, record.policy);
    ASSERT_TRUE(to->publish(record).ok());
  }
  ASSERT_SUCCEEDS(library().database_open(better.c_str(), nullptr, &table));
  headnorm_warm_report report = headnorm_warm_report_init();
  ASSERT_SUCCEEDS(library().runtime_warm(runtime, table, nullptr, &report));
  EXPECT_EQ(report.records, 1);
  EXPECT_EQ(report.missing, 0);
  EXPECT_EQ(report.shadowed, 1);
  library().database_release(table);
  library().runtime_release(runtime);
}

TEST_F(CApi, HandlesKeepAliveWhatTheyNeed) {
  headnorm_runtime* const runtime = make_runtime();
  headnorm_buffer *x = nullptr, *y = nullptr;
  ASSERT_SUCCEEDS(library().buffer_create(device_, kRows * kWidth * sizeof(float), &x));
  ASSERT_SUCCEEDS(library().buffer_create(device_, kRows * kWidth * sizeof(float), &y));
  ASSERT_SUCCEEDS(library().device_copy_in(device_, library().buffer_address(x), x_.data(), kRows * kWidth * sizeof(float)));
  headnorm_device* const other = device_;
  headnorm_arguments a = arguments();
  a.x = library().buffer_address(x);
  a.y = library().buffer_address(y);
  library().database_release(std::exchange(database_, nullptr));
  ASSERT_SUCCEEDS(library().runtime_launch(runtime, spec_, &a, nullptr));
  ASSERT_SUCCEEDS(library().device_synchronize(other));
  ASSERT_SUCCEEDS(library().device_copy_out(other, y_.data(), a.y, kRows * kWidth * sizeof(float)));
  EXPECT_EQ(y_[kRows * kWidth - 1], -1.0f);
  library().device_release(std::exchange(device_, nullptr));
  ASSERT_SUCCEEDS(library().runtime_launch(runtime, spec_, &a, nullptr));
  library().runtime_release(runtime);
  library().buffer_release(y);
  library().buffer_release(x);
}

struct Turns {
  int tasks = 0;
  bool released = false;
};

TEST_F(CApi, ACallersExecutorRunsTheTasks) {
  Turns turns;
  headnorm_executor executor = headnorm_executor_init();
  executor.threads = 4;
  executor.context = &turns;
  executor.run = [](void* context, int count, headnorm_task function, void* task) {
    static_cast<Turns*>(context)->tasks += count;
    for (int i = count - 1; i >= 0; --i) function(task, i);
  };
  executor.release = [](void* context) { static_cast<Turns*>(context)->released = true; };
  headnorm_device* device = nullptr;
  ASSERT_SUCCEEDS(library().device_open_executor(&executor, &device));
  headnorm_device_info info = headnorm_device_info_init();
  ASSERT_SUCCEEDS(library().device_get_info(device, &info));
  EXPECT_EQ(info.units, 4);
  EXPECT_STREQ(info.kind, "host");
  EXPECT_STREQ(info.target, to_text(make_host_target(detect_host_isa())).c_str());

  headnorm_runtime* runtime = nullptr;
  ASSERT_SUCCEEDS(library().runtime_create(device, nullptr, nullptr, &runtime));
  library().device_release(device);
  EXPECT_FALSE(turns.released) << "the runtime has it";
  library().runtime_release(runtime);
  EXPECT_TRUE(turns.released);

  executor.run = nullptr;
  expect_error(library().device_open_executor(&executor, &device), HEADNORM_ERROR_USER, "executor->run is null");
  executor = headnorm_executor_init();
  executor.run = [](void*, int, headnorm_task, void*) {};
  turns.released = false;
  executor.context = &turns;
  executor.release = [](void* context) { static_cast<Turns*>(context)->released = true; };
  expect_error(library().device_open_executor(&executor, &device), HEADNORM_ERROR_USER, "0 threads");
  EXPECT_FALSE(turns.released) << "it stays the caller's";
}

TEST_F(CApi, WarningsReachTheCaller) {
  std::vector<std::string> warnings;
  headnorm_database_options options = headnorm_database_options_init();
  options.read_only = 1;
  options.warn = [](void* context, const char* message) { static_cast<std::vector<std::string>*>(context)->push_back(message); };
  options.warn_context = &warnings;
  std::ofstream(root_ / "records" / (std::string(32, 'a') + ".json")) << "{";
  headnorm_database* damaged = nullptr;
  ASSERT_SUCCEEDS(library().database_open(root_.c_str(), &options, &damaged));
  char digest[HEADNORM_DIGEST_BYTES] = {};
  ASSERT_SUCCEEDS(library().database_digest(damaged, digest));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("is passed over"), std::string::npos) << warnings[0];
  library().database_release(damaged);
}

// Whatever a caller's function throws: a status comes of it, and the next call is right.
TEST_F(CApi, NoExceptionOfACallersFunctionLeavesTheLibrary) {
  headnorm_database_options options = headnorm_database_options_init();
  options.read_only = 1;
  std::ofstream(root_ / "records" / (std::string(32, 'a') + ".json")) << "{";
  char digest[HEADNORM_DIGEST_BYTES] = {};
  const auto digest_with = [&](void (*warn)(void*, const char*)) {
    options.warn = warn;
    headnorm_database* damaged = nullptr;
    EXPECT_EQ(library().database_open(root_.c_str(), &options, &damaged), HEADNORM_OK) << last_error();
    const headnorm_status first = library().database_digest(damaged, digest);
    EXPECT_EQ(library().database_digest(damaged, digest), HEADNORM_OK) << last_error();
    library().database_release(damaged);
    return first;
  };
  expect_error(digest_with([](void*, const char*) { throw 42; }), HEADNORM_ERROR_USER, "no std::exception");
  expect_error(digest_with([](void*, const char*) { throw std::runtime_error("of the caller"); }), HEADNORM_ERROR_USER,
               "a function that was handed to headnorm threw an exception: of the caller");
  EXPECT_NE(std::string(library().last_remedy()).find("executor"), std::string::npos) << library().last_remedy();
  expect_error(digest_with([](void*, const char*) { throw std::bad_alloc(); }), HEADNORM_ERROR_ENVIRONMENT, "not enough memory");
  EXPECT_NE(std::string(library().last_remedy()).find("free memory"), std::string::npos) << library().last_remedy();
}

// A copy of the library, in a place of its own, finds what lies beside it there.
TEST_F(CApi, ShippedTablesAreFoundBesideTheLibrary) {
  const std::filesystem::path lib = directory_.path() / "lib", tables = directory_.path() / "share/headnorm/tuning_db";
  std::filesystem::create_directories(lib);
  std::filesystem::copy(HEADNORM_SHARED_LIBRARY, lib / "copy.so");
  const Library copy((lib / "copy.so").c_str());
  headnorm_database* shipped = nullptr;
  EXPECT_EQ(copy.database_open(nullptr, nullptr, &shipped), HEADNORM_ERROR_ENVIRONMENT);
  EXPECT_NE(std::string(copy.last_error()).find("no tables"), std::string::npos) << copy.last_error();

  Record record = *Database::open(root_).value()->list()->begin();
  record.kernel = {};
  std::filesystem::create_directories(tables);
  std::ofstream(tables / (table_family(record.device.target) + ".here.json")) << *table_to_json({record});
  headnorm_database_options options = headnorm_database_options_init();
  options.shipped = 1;
  const std::string empty = directory_.path() / "empty";
  headnorm_device_options one = headnorm_device_options_init();
  one.threads = 1;
  headnorm_device* device = nullptr;
  headnorm_spec* spec = nullptr;
  ASSERT_EQ(copy.device_open("host", &one, &device), HEADNORM_OK) << copy.last_error();
  ASSERT_EQ(copy.spec_parse(library().spec_text(spec_), &spec), HEADNORM_OK) << copy.last_error();
  for (const char* directory : {static_cast<const char*>(nullptr), empty.c_str()}) {
    headnorm_runtime* runtime = nullptr;
    headnorm_choice choice = headnorm_choice_init();
    ASSERT_EQ(copy.database_open(directory, &options, &shipped), HEADNORM_OK) << copy.last_error();
    ASSERT_EQ(copy.runtime_create(device, shipped, nullptr, &runtime), HEADNORM_OK) << copy.last_error();
    ASSERT_EQ(copy.runtime_look_up(runtime, spec, kRows, &choice), HEADNORM_OK) << copy.last_error();
    EXPECT_STREQ(choice.served, "exact");
    copy.runtime_release(runtime);
    copy.database_release(shipped);
  }
  copy.spec_release(spec);
  copy.device_release(device);
}

TEST_F(CApi, WhatIsWrongIsSaid) {
  headnorm_spec* spec = nullptr;
  headnorm_device* device = nullptr;
  headnorm_database* database = nullptr;
  headnorm_runtime* runtime = nullptr;
  expect_error(library().spec_parse("width=100,head_size=33", &spec), HEADNORM_ERROR_USER, "33");
  EXPECT_EQ(spec, nullptr);
  expect_error(library().spec_parse(nullptr, &spec), HEADNORM_ERROR_USER, "text is null");
  expect_error(library().device_open("tpu", nullptr, &device), HEADNORM_ERROR_USER, "'tpu' is no device");
  expect_error(library().device_open("cuda:x", nullptr, &device), HEADNORM_ERROR_USER, "'x'");
  headnorm_device_options options = headnorm_device_options_init();
  options.driver = "/nonexistent/libcuda.so.1";
  expect_error(library().device_open("cuda:0", &options, &device), HEADNORM_ERROR_ENVIRONMENT, "/nonexistent/libcuda.so.1");
  expect_error(library().database_open("/proc/nonexistent/db", nullptr, &database), HEADNORM_ERROR_ENVIRONMENT,
               "/proc/nonexistent");
  expect_error(library().runtime_create(nullptr, nullptr, nullptr, &runtime), HEADNORM_ERROR_USER, "device is null");
  expect_error(library().runtime_launch(nullptr, spec_, nullptr, nullptr), HEADNORM_ERROR_USER, "runtime is null");
  runtime = make_runtime();
  expect_error(library().runtime_launch(runtime, spec_, nullptr, nullptr), HEADNORM_ERROR_USER, "arguments is null");
  expect_error(library().runtime_prepare(runtime, spec_, 0, nullptr), HEADNORM_ERROR_USER, "rows is 0");
  library().runtime_release(runtime);
  library().runtime_release(nullptr);
  library().device_release(nullptr);
  library().database_release(nullptr);
  library().spec_release(nullptr);
  library().buffer_release(nullptr);
}

TEST_F(CApi, EachThreadHasItsOwnLastError) {
  headnorm_spec* spec = nullptr;
  EXPECT_NE(library().spec_parse("here", &spec), HEADNORM_OK);
  const std::string mine = last_error();
  std::thread([&] {
    EXPECT_EQ(last_error(), "");
    EXPECT_NE(library().spec_parse("there", &spec), HEADNORM_OK);
    EXPECT_NE(last_error(), mine);
  }).join();
  EXPECT_EQ(last_error(), mine);
}

// A program of an older version: its struct ends earlier, and the members that it lacks are 0.
TEST_F(CApi, StructsOfAnOlderVersionAreUnderstood) {
  headnorm_runtime* const runtime = make_runtime();
  headnorm_arguments a = arguments();
  a.struct_size = offsetof(headnorm_arguments, residual_out);
  a.residual_out_stride = -1;  // beyond what this program knows of
  ASSERT_SUCCEEDS(library().runtime_launch(runtime, spec_, &a, nullptr));
  headnorm_choice choice = headnorm_choice_init();
  choice.struct_size = offsetof(headnorm_choice, record);
  std::strcpy(choice.record, "untouched");
  ASSERT_SUCCEEDS(library().runtime_look_up(runtime, spec_, kRows, &choice));
  EXPECT_STREQ(choice.served, "exact");
  EXPECT_STREQ(choice.record, "untouched");
  library().runtime_release(runtime);
}

// A program of a newer version: what this library knows nothing of must not be asked for.
TEST_F(CApi, StructsOfANewerVersionAreUnderstoodOrRefused) {
  struct Newer {
    headnorm_arguments arguments;
    std::int64_t added;
  };
  headnorm_runtime* const runtime = make_runtime();
  Newer newer{arguments(), 0};
  newer.arguments.struct_size = sizeof newer;
  ASSERT_SUCCEEDS(library().runtime_launch(runtime, spec_, &newer.arguments, nullptr));
  newer.added = 1;
  expect_error(library().runtime_launch(runtime, spec_, &newer.arguments, nullptr), HEADNORM_ERROR_USER, "struct_size");
  for (const std::size_t never_set : {std::size_t{0}, std::size_t{1} << 40}) {
    newer.arguments.struct_size = never_set;
    expect_error(library().runtime_launch(runtime, spec_, &newer.arguments, nullptr), HEADNORM_ERROR_USER, "struct_size");
  }
  library().runtime_release(runtime);
}

TEST_F(CApi, CopiesOfNullAreErrors) {
  expect_error(library().device_copy_in(device_, nullptr, x_.data(), 4), HEADNORM_ERROR_USER, "device_address");
  expect_error(library().device_copy_in(device_, y_.data(), nullptr, 4), HEADNORM_ERROR_USER, "null");
  expect_error(library().device_copy_out(device_, nullptr, x_.data(), 4), HEADNORM_ERROR_USER, "null");
  ASSERT_SUCCEEDS(library().device_copy_in(device_, nullptr, nullptr, 0));
}

TEST_F(CApi, AProgramInPlainCRuns) {
  const std::string spec = to_text(fixtures::norm_spec());
  const int status = test::wait_for(test::start_process([&] {
    ::execl(HEADNORM_PLAIN_C, HEADNORM_PLAIN_C, root_.c_str(), spec.c_str(), nullptr);
    return false;
  }));
  EXPECT_TRUE(test::succeeded(status)) << status;
}

TEST_F(CApi, SaysItsVersionAndWhetherItCompiles) {
  EXPECT_STREQ(library().version(), HEADNORM_TEST_VERSION);
  EXPECT_EQ(library().has_compiler(), 0);
}

}  // namespace
}  // namespace headnorm
