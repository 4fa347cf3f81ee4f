// The kernel cache: one compilation per kernel, what is stored, and what happens when compiling fails or is not allowed.
#include "runtime/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <thread>

#include "tests/fixtures/fake_backend.h"
#include "tests/fixtures/memory_database.h"

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace headnorm {
namespace {

using fixtures::FakeBackend;
using fixtures::MemoryDatabase;

class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = make_host_device(1);
    ASSERT_TRUE(device.ok());
    device_ = std::move(*device);
    const auto plan = fixtures::norm_plan(), other = fixtures::norm_plan(StoreKind::nt);
    ASSERT_TRUE(plan.ok() && other.ok());
    plan_ = *plan;
    other_plan_ = *other;
  }

  // What a process with this backend leaves behind.
  void store(const Plan& plan, FakeBackend& backend) {
    const auto artifact = backend.compile(plan);
    ASSERT_TRUE(artifact.ok());
    database_.kernels[artifact->key] = *artifact;
  }

  std::unique_ptr<Device> device_;
  Plan plan_, other_plan_;
  MemoryDatabase database_;
  FakeBackend backend_{HEADNORM_FIXTURE_NORM};
};

TEST_F(KernelCacheTest, ManyThreadsCauseOneCompilation) {
  KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
  backend_.before = [](const Plan&) -> Result<void> {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that the others come while it runs
    return {};
  };
  std::vector<std::future<const LoadedKernel*>> callers;
  for (int i = 0; i < 16; ++i)
    callers.push_back(std::async(std::launch::async, [&]() -> const LoadedKernel* {
      const auto kernel = cache.get(plan_);
      return kernel.ok() ? kernel->get() : nullptr;
    }));
  const LoadedKernel* const first = callers[0].get();
  ASSERT_NE(first, nullptr);
  for (std::size_t i = 1; i < callers.size(); ++i) EXPECT_EQ(callers[i].get(), first);
  EXPECT_EQ(backend_.compilations, 1);
  EXPECT_EQ(cache.counters().compilations, 1);
  EXPECT_EQ(cache.counters().memory_hits, 15);
}

TEST_F(KernelCacheTest, DifferentKernelsCompileAtOnce) {
  KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
  std::mutex mutex;
  std::condition_variable both;
  int inside = 0;
  backend_.before = [&](const Plan&) -> Result<void> {
    std::unique_lock lock(mutex);
    ++inside;
    both.notify_all();
    // Returns at once when the other compilation has begun; a cache that holds it up makes this time out.
    if (!both.wait_for(lock, std::chrono::seconds(20), [&] { return inside == 2; })) return internal_error("alone");
    return {};
  };
  auto first = std::async(std::launch::async, [&] { return cache.get(plan_).ok(); });
  EXPECT_TRUE(cache.get(other_plan_).ok());
  EXPECT_TRUE(first.get());
}

TEST_F(KernelCacheTest, WhatWasCompiledIsFoundInTheDatabase) {
  {
    KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
    ASSERT_TRUE(cache.get(plan_).ok());
  }
  ASSERT_EQ(database_.kernels.size(), 1u);
  EXPECT_EQ(database_.kernels.begin()->first, artifact_key(plan_, backend_.identity()));
  KernelCache cache(*device_, &database_, &backend_, JitMode::forbidden);
  ASSERT_TRUE(cache.get(plan_).ok());
  ASSERT_TRUE(cache.get(plan_).ok());
  EXPECT_EQ(cache.counters().database_hits, 1);
  EXPECT_EQ(cache.counters().memory_hits, 1);
  EXPECT_EQ(backend_.compilations, 1);
}

TEST_F(KernelCacheTest, WorksFromMemoryIfNothingCanBeStored) {
  database_.refuses_to_store = true;
  KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
  EXPECT_TRUE(cache.get(plan_).ok());
  EXPECT_TRUE(cache.get(plan_).ok());
  EXPECT_EQ(backend_.compilations, 1);
}

TEST_F(KernelCacheTest, WorksWithoutADatabase) {
  KernelCache cache(*device_, nullptr, &backend_, JitMode::allowed);
  EXPECT_TRUE(cache.get(plan_).ok());
}

TEST_F(KernelCacheTest, AForbiddenCompilationNamesTheKernelAndTheRemedy) {
  KernelCache cache(*device_, &database_, &backend_, JitMode::forbidden);
  const auto kernel = cache.get(plan_);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().kind, ErrorKind::user);
  for (const std::string& part : {to_text(plan_.spec), to_text(plan_.target), to_text(plan_.schedule), std::string("forbidden")})
    EXPECT_NE(kernel.error().message.find(part), std::string::npos) << kernel.error().message;
  EXPECT_NE(kernel.error().remedy.find("headnorm tune --spec '" + to_text(plan_.spec) + "'"), std::string::npos);
  EXPECT_EQ(backend_.compilations, 0);
}

TEST_F(KernelCacheTest, WithoutACompilerAMissIsOfTheEnvironment) {
  KernelCache cache(*device_, &database_, nullptr, JitMode::allowed);
  const auto kernel = cache.get(plan_);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().kind, ErrorKind::environment);
  EXPECT_NE(kernel.error().message.find("no compiler"), std::string::npos);
}

TEST_F(KernelCacheTest, AFailedCompilationReachesAllWaitersAndIsTriedAgain) {
  KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
  backend_.before = [](const Plan&) -> Result<void> {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return internal_error("the compiler's own words");
  };
  std::vector<std::future<std::string>> callers;
  for (int i = 0; i < 8; ++i)
    callers.push_back(std::async(std::launch::async, [&] {
      const auto kernel = cache.get(plan_);
      return kernel.ok() ? std::string("a kernel") : kernel.error().message;
    }));
  for (auto& caller : callers) EXPECT_EQ(caller.get(), "the compiler's own words");
  EXPECT_TRUE(database_.kernels.empty());
  const int tries = backend_.compilations;
  backend_.before = nullptr;
  EXPECT_TRUE(cache.get(plan_).ok());
  EXPECT_EQ(backend_.compilations, tries + 1);
}

TEST_F(KernelCacheTest, AnExceptionOfTheCompilerIsAnErrorAndIsTriedAgain) {
  KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
  backend_.before = [](const Plan&) -> Result<void> { throw std::bad_alloc(); };
  const auto failed = cache.get(plan_);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::environment);
  backend_.before = nullptr;
  EXPECT_TRUE(cache.get(plan_).ok());
}

// The next caller does not wait for a promise that nobody keeps.
TEST_F(KernelCacheTest, AForeignExceptionIsAnErrorAndIsTriedAgain) {
  KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
  backend_.before = [](const Plan&) -> Result<void> { throw 42; };
  const auto failed = cache.get(plan_);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("foreign exception"), std::string::npos) << failed.error().message;
  backend_.before = nullptr;
  EXPECT_TRUE(cache.get(plan_).ok());
}

TEST_F(KernelCacheTest, ACompilerThatEmitsNothingIsAnErrorAndNothingIsStored) {
  KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
  backend_.emits_nothing = true;
  EXPECT_FALSE(cache.get(plan_).ok());
  EXPECT_TRUE(database_.kernels.empty());
}

TEST_F(KernelCacheTest, AStoredKernelThatDoesNotLoadIsCompiledAgain) {
  store(plan_, backend_);
  database_.kernels.begin()->second.bytes.resize(100);
  KernelCache cache(*device_, &database_, &backend_, JitMode::allowed);
  EXPECT_TRUE(cache.get(plan_).ok());
  EXPECT_EQ(cache.counters().compilations, 1);
  ASSERT_EQ(database_.warnings.size(), 1u);
  EXPECT_NE(database_.warnings[0].find("passed over"), std::string::npos);
  EXPECT_GT(database_.kernels.begin()->second.bytes.size(), 100u) << "replaced";
}

TEST_F(KernelCacheTest, AnotherBackendsKernelServesOnlyWhereNothingCanBeCompiled) {
  FakeBackend older(HEADNORM_FIXTURE_NORM, "fake-0");
  const StoredBy by_older{"fake-0", plan_.target};
  store(plan_, older);
  KernelCache compiling(*device_, &database_, &backend_, JitMode::allowed);
  ASSERT_TRUE(compiling.get(plan_, by_older).ok());
  EXPECT_EQ(compiling.counters().compilations, 1) << "another toolchain is another kernel";

  database_.kernels.clear();
  store(plan_, older);
  KernelCache forbidden(*device_, &database_, &backend_, JitMode::forbidden),
      runtime_only(*device_, &database_, nullptr, JitMode::allowed);
  EXPECT_TRUE(forbidden.get(plan_, by_older).ok());
  EXPECT_TRUE(runtime_only.get(plan_, by_older).ok());
  EXPECT_FALSE(runtime_only.get(other_plan_, by_older).ok()) << "of another plan";
  EXPECT_FALSE(runtime_only.get(other_plan_).ok());
}

TEST_F(KernelCacheTest, AChildDoesNotWaitForAThreadThatForkLeftBehind) {
  KernelCache cache(*device_, nullptr, &backend_, JitMode::allowed);
  std::promise<void> begun, go_on;
  const pid_t parent = ::getpid();
  backend_.before = [&](const Plan&) -> Result<void> {
    if (::getpid() != parent) return {};
    begun.set_value();
    go_on.get_future().wait();
    return {};
  };
  auto caller = std::async(std::launch::async, [&] { return cache.get(plan_).ok(); });
  begun.get_future().wait();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);  // a child that waits for ever is ended by the signal
    ::_exit(cache.get(plan_).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  go_on.set_value();
  EXPECT_TRUE(caller.get());
}

}  // namespace
}  // namespace headnorm
