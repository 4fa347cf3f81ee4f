// Fakes for tests of the tuner: a backend, a device and a database in memory, with faults and times chosen by plan.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/codegen_backend.h"
#include "runtime/database/database.h"
#include "runtime/device.h"
#include "tests/support/reference.h"
#include "tuner/measure.h"

namespace headnorm::test {

// What is wrong with a kernel.
enum class Fault {
  none,
  compile,         // the backend refuses
  load,            // the device refuses
  launch,          // the launch fails
  writes_zeros,    // every output is 0
  writes_nothing,  // outputs keep what was there
  wrong_tail,      // the last element of the last row is off by a quarter
  overruns,        // writes 8 bytes past the last row of y
  runs_into_gap,   // writes one element past each row of y
  changes_input,   // writes into the weights
};

struct FakeClock {
  double now_s = 0;
};

class FakeBackend final : public CodegenBackend {
 public:
  std::string identity() const override { return "fake-1"; }
  Result<Artifact> compile(const Plan& plan) override;

  std::function<Fault(const Plan&)> fault = [](const Plan&) { return Fault::none; };
  FakeClock* clock = nullptr;         // a compilation takes 1 ms of it
  std::vector<std::string> compiled;  // schedules in order, those that failed too
};

// Runs the reference on the host's memory. Times come from `time_us` and pass on the clock.
class FakeDevice final : public Device {
 public:
  FakeDevice();
  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> allocate(std::size_t bytes) override;
  Result<void> copy_in(void* device_address, const void* source, std::size_t bytes) override;
  Result<void> copy_out(void* destination, const void* device_address, std::size_t bytes) override;
  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact, const Plan& plan) override;
  Result<void> launch(const LoadedKernel& kernel, const LaunchArguments& arguments) override;
  Result<void> synchronize() override { return {}; }
  Result<double> measure_us(const LoadedKernel& kernel, const LaunchArguments& arguments) override;
  Result<double> measure_copy_us(void* to, const void* from, std::size_t bytes) override;

  // Asked with the number of launches of this plan so far.
  std::function<Fault(const Plan&, int launches)> fault = [](const Plan&, int) { return Fault::none; };
  std::function<double(const Plan&)> time_us = [](const Plan&) { return 10.0; };
  FakeClock* clock = nullptr;
  std::int64_t copied_in_bytes = 0;
  std::map<std::string, int> launches;                      // by schedule
  std::vector<std::pair<std::string, void*>> measured;      // schedule and address of x, in order
  std::vector<std::pair<const void*, std::size_t>> copied;  // address of the source and bytes, in order

 private:
  const ReferenceRow& reference(const KernelSpec& spec, const LaunchArguments& arguments, std::int64_t row);
  void run_rows(const KernelSpec& spec, const LaunchArguments& arguments, double factor);

  DeviceInfo info_;
  std::map<std::string, ReferenceRow> references_;  // by spec and the bytes of the inputs: few rows differ
};

// Takes 5 us for anything.
class FakeCopy final : public CopyReference {
 public:
  Result<double> measure_us(std::int64_t) override { return 5.0; }
};

// Records in memory; the directory, for locks and journals, is a temporary one that goes with it.
class FakeDatabase final : public Database {
 public:
  FakeDatabase();
  ~FakeDatabase() override;
  const std::filesystem::path& directory() const override { return directory_; }
  Result<std::optional<Record>> find(const std::string& id) override;
  Result<std::vector<Record>> list(std::vector<Damage>* damage) override;
  Result<Lookup> look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) override;
  Result<void> publish(const Record& record) override;
  Result<StoredKernel> store_kernel(const Artifact& artifact, const std::string& log) override;
  Result<std::optional<Artifact>> load_kernel(const StoredKernel& kernel) override;
  Result<std::optional<Artifact>> find_kernel(const std::string& artifact_key) override;
  Result<void> store_trials(const TrialLog& log) override {
    trials[log.record_id] = log;
    return {};
  }
  void warn(const std::string&, const std::string& message) override { warnings.push_back(message); }
  Result<std::vector<Damage>> check() override { return std::vector<Damage>(); }

  std::map<std::string, Record> records;
  std::map<std::string, TrialLog> trials;
  std::vector<std::string> warnings;

 private:
  std::filesystem::path directory_;
};

}  // namespace headnorm::test
