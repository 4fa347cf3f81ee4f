// The C API's specs, devices, buffers and databases.
#include <fmt/format.h>

#include "core/text.h"
#include "runtime/c_api/boundary.h"
#include "runtime/c_api/handles.h"
#include "runtime/database/layered_database.h"
#include "runtime/database/table_digest.h"

namespace headnorm::c_api {
namespace {

class CallersExecutor final : public Executor {
 public:
  explicit CallersExecutor(const headnorm_executor& executor) : executor_(executor) {}
  CallersExecutor(const CallersExecutor&) = delete;
  CallersExecutor& operator=(const CallersExecutor&) = delete;
  ~CallersExecutor() override {
    if (owned_ && executor_.release != nullptr) executor_.release(executor_.context);
  }
  // Once the call that made the device cannot fail any more: until then the context is the caller's.
  void take_context() noexcept { owned_ = true; }
  int threads() const override { return executor_.threads; }
  void run(int count, const std::function<void(int)>& task) override {
    const auto call = [](void* work, int index) { (*static_cast<const std::function<void(int)>*>(work))(index); };
    executor_.run(executor_.context, count, call, const_cast<std::function<void(int)>*>(&task));
  }

 private:
  headnorm_executor executor_;
  bool owned_ = false;
};

Result<std::unique_ptr<Device>> open_cuda(std::string_view name, const headnorm_device_options& options) {
  const std::string_view number = name == "cuda" ? "0" : name.substr(5);
  HEADNORM_TRY(const std::int64_t ordinal, text::parse_integer(number, "the number of a CUDA device", "cuda:0"));
  CudaDriverOptions driver;
  if (options.driver != nullptr) driver.library = options.driver;
  if (ordinal < 0 || ordinal > 1023) return user_error(fmt::format("there is no device '{}'", name), "use cuda:0 for the first");
  return make_cuda_device(driver, static_cast<int>(ordinal));
}

Result<std::unique_ptr<Device>> open_device(std::string_view name, const headnorm_device_options& options) {
  if (name == "host") return make_host_device(options.threads);
  if (name == "cuda" || name.starts_with("cuda:")) return open_cuda(name, options);
  return user_error(fmt::format("'{}' is no device", name), "use host, or cuda:0 for the first GPU");
}

Result<void> check_copy(const headnorm_device* device, const void* device_address, const void* host, std::size_t bytes) {
  if (device == nullptr) return null_argument("device");
  if (bytes > 0 && device_address == nullptr) return null_argument("device_address");
  if (bytes > 0 && host == nullptr) return null_argument("the host's address");
  return {};
}

headnorm_device* make_handle(std::unique_ptr<Device> device) {
  const std::string target = to_text(device->info().target);
  return new headnorm_device{std::move(device), target};
}

// The tables that come with headnorm, with nothing above them.
Result<std::unique_ptr<Database>> open_shipped(const DatabaseOptions& options) {
  const std::optional<std::filesystem::path> tables = find_shipped_tables();
  if (!tables)
    return environment_error("no tables come with this library: there is no share/headnorm/tuning_db beside it",
                             "install headnorm as a whole, or open a database directory");
  return add_shipped_tables(nullptr, std::make_shared<ShippedTables>(*tables, options.warn), options.warn);
}

Result<std::unique_ptr<Database>> open_database(const char* directory, const headnorm_database_options& ours) {
  DatabaseOptions options;
  options.read_only = ours.read_only != 0;
  if (ours.warn != nullptr)
    options.warn = [warn = ours.warn, context = ours.warn_context](const std::string& message) { warn(context, message.c_str()); };
  if (directory == nullptr) return open_shipped(options);
  return ours.shipped != 0 ? open_layered_database(directory, std::move(options)) : Database::open(directory, std::move(options));
}

template <class Struct>
Result<Struct> read_or(const Struct* given, const char* name, const Struct& otherwise) {
  return given == nullptr ? Result<Struct>(otherwise) : read_struct(given, name);
}

}  // namespace
}  // namespace headnorm::c_api

using namespace headnorm;
using namespace headnorm::c_api;

extern "C" {

headnorm_status headnorm_spec_parse(const char* text, headnorm_spec** spec) {
  return guarded([&]() -> Result<void> {
    if (text == nullptr || spec == nullptr) return null_argument(text == nullptr ? "text" : "spec");
    HEADNORM_TRY(const KernelSpec parsed, parse_spec(text));
    *spec = new headnorm_spec{parsed, to_text(parsed)};
    return {};
  });
}

const char* headnorm_spec_text(const headnorm_spec* spec) { return spec == nullptr ? "" : spec->text.c_str(); }

void headnorm_spec_release(headnorm_spec* spec) { delete spec; }

headnorm_status headnorm_device_open(const char* name, const headnorm_device_options* options, headnorm_device** device) {
  return guarded([&]() -> Result<void> {
    if (name == nullptr || device == nullptr) return null_argument(name == nullptr ? "name" : "device");
    HEADNORM_TRY(const auto ours, read_or(options, "options", headnorm_device_options_init()));
    HEADNORM_TRY(std::unique_ptr<Device> opened, open_device(name, ours));
    *device = make_handle(std::move(opened));
    return {};
  });
}

headnorm_status headnorm_device_open_executor(const headnorm_executor* executor, headnorm_device** device) {
  return guarded([&]() -> Result<void> {
    if (executor == nullptr || device == nullptr) return null_argument(executor == nullptr ? "executor" : "device");
    HEADNORM_TRY(const headnorm_executor ours, read_struct(executor, "executor"));
    if (ours.run == nullptr) return null_argument("executor->run");
    const auto callers = std::make_shared<CallersExecutor>(ours);
    HEADNORM_TRY(std::unique_ptr<Device> made, make_host_device(callers));
    *device = make_handle(std::move(made));
    callers->take_context();
    return {};
  });
}

headnorm_status headnorm_device_get_info(const headnorm_device* device, headnorm_device_info* info) {
  return guarded([&]() -> Result<void> {
    if (device == nullptr || info == nullptr) return null_argument(device == nullptr ? "device" : "info");
    HEADNORM_TRY(headnorm_device_info ours, read_struct(info, "info"));
    const DeviceInfo& facts = device->device->info();
    ours.kind = facts.kind.c_str();
    ours.id = facts.id.c_str();
    ours.name = facts.name.c_str();
    ours.target = device->target.c_str();
    ours.units = facts.units;
    ours.memory_bytes = facts.memory_bytes;
    write_struct(info, ours);
    return {};
  });
}

headnorm_status headnorm_device_synchronize(headnorm_device* device) {
  return guarded([&]() -> Result<void> { return device == nullptr ? null_argument("device") : device->device->synchronize(); });
}

headnorm_status headnorm_device_copy_in(headnorm_device* device, void* device_address, const void* source, size_t bytes) {
  return guarded([&]() -> Result<void> {
    HEADNORM_CHECK(check_copy(device, device_address, source, bytes));
    return device->device->copy_in(device_address, source, bytes);
  });
}

headnorm_status headnorm_device_copy_out(headnorm_device* device, void* destination, const void* device_address, size_t bytes) {
  return guarded([&]() -> Result<void> {
    HEADNORM_CHECK(check_copy(device, device_address, destination, bytes));
    return device->device->copy_out(destination, device_address, bytes);
  });
}

void headnorm_device_release(headnorm_device* device) { delete device; }

headnorm_status headnorm_buffer_create(headnorm_device* device, size_t bytes, headnorm_buffer** buffer) {
  return guarded([&]() -> Result<void> {
    if (device == nullptr || buffer == nullptr) return null_argument(device == nullptr ? "device" : "buffer");
    HEADNORM_TRY(Buffer memory, device->device->allocate(bytes));
    *buffer = new headnorm_buffer{device->device, std::move(memory)};
    return {};
  });
}

void* headnorm_buffer_address(const headnorm_buffer* buffer) { return buffer == nullptr ? nullptr : buffer->buffer.address(); }

void headnorm_buffer_release(headnorm_buffer* buffer) { delete buffer; }

headnorm_status headnorm_database_open(const char* directory, const headnorm_database_options* options,
                                       headnorm_database** database) {
  return guarded([&]() -> Result<void> {
    if (database == nullptr) return null_argument("database");
    HEADNORM_TRY(const auto ours, read_or(options, "options", headnorm_database_options_init()));
    HEADNORM_TRY(std::unique_ptr<Database> opened, open_database(directory, ours));
    *database = new headnorm_database{std::move(opened)};
    return {};
  });
}

headnorm_status headnorm_database_digest(headnorm_database* database, char digest[HEADNORM_DIGEST_BYTES]) {
  return guarded([&]() -> Result<void> {
    if (database == nullptr || digest == nullptr) return null_argument(database == nullptr ? "database" : "digest");
    HEADNORM_TRY(const std::vector<Record> records, database->database->list(nullptr));
    const std::string text = table_digest(records);
    digest[text.copy(digest, HEADNORM_DIGEST_BYTES - 1)] = 0;
    return {};
  });
}

void headnorm_database_release(headnorm_database* database) { delete database; }
}
