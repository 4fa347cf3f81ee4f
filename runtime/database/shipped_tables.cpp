#include "runtime/database/shipped_tables.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/auxv.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "runtime/database/sealed_json.h"
#include "runtime/database/tuned_table.h"

namespace headnorm {
namespace {

// From the directory of the program or library: bin/ and lib/ of an installation, one level more of lib/<triplet>/.
constexpr const char* kPlaces[] = {"../share/headnorm/tuning_db", "../../share/headnorm/tuning_db"};

// The file that this code was loaded from.
std::filesystem::path own_file() {
  Dl_info own{}, program{};
  const bool found = ::dladdr(reinterpret_cast<const void*>(&find_shipped_tables), &own) != 0;
  const bool in_program =
      !found || ::dladdr(reinterpret_cast<const void*>(::getauxval(AT_ENTRY)), &program) == 0 || own.dli_fbase == program.dli_fbase;
  std::error_code failed;
  // The program's own name is what it was called by, which need not be a path.
  if (in_program) return std::filesystem::read_symlink("/proc/self/exe", failed);
  return std::filesystem::canonical(own.dli_fname, failed);
}

}  // namespace

// The tables of x86-64-v4 serve processors that convert bf16, too.
std::string table_family(const Target& target) {
  if (target.kind == TargetKind::gpu) return fmt::format("sm_{}", target.sm);
  return to_text(make_host_target(target.isa == HostIsa::x86_64_v4_bf16 ? HostIsa::x86_64_v4 : target.isa));
}

std::optional<std::filesystem::path> find_shipped_tables() {
  const std::filesystem::path file = own_file();
  if (file.empty()) return std::nullopt;
  std::error_code failed;
  for (const char* place : kPlaces) {
    const std::filesystem::path directory = (file.parent_path() / place).lexically_normal();
    if (std::filesystem::is_directory(directory, failed)) return directory;
  }
  return std::nullopt;
}

Result<Lookup> ShippedTables::look_up(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device) {
  const std::lock_guard lock(mutex_);
  HEADNORM_TRY(Lookup lookup, index_of(table_family(device.target)).look_up(spec, rows, device));
  if (!lookup.record) return lookup;
  lookup.origin = Origin::shipped;
  Record& record = *lookup.record;
  record.id = record_id(record.spec, record.rows, record.device, record.policy);
  return lookup;
}

std::vector<Record> ShippedTables::list() {
  std::vector<Record> records;
  for (const std::filesystem::path& file : files_of("")) {
    for (std::vector<Record>& of_spec : read(file)) std::move(of_spec.begin(), of_spec.end(), std::back_inserter(records));
  }
  for (Record& record : records) record.id = record_id(record.spec, record.rows, record.device, record.policy);
  return records;
}

const RecordIndex& ShippedTables::index_of(const std::string& family) {
  const auto [place, is_new] = indices_.try_emplace(family);
  if (!is_new) return place->second;
  for (const std::filesystem::path& file : files_of(family + ".")) {
    for (std::vector<Record>& of_spec : read(file)) {
      std::vector<std::shared_ptr<const Record>> records;
      for (Record& record : of_spec) records.push_back(std::make_shared<const Record>(std::move(record)));
      place->second.add(records);
    }
  }
  return place->second;
}

std::vector<std::filesystem::path> ShippedTables::files_of(const std::string& prefix) const {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".json") && name != "schema.json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::vector<Record>> ShippedTables::read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(sealed_json::kMaxBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  Result<std::vector<SpecRecords>> table = table_from_json(text);
  if (table.ok()) return *std::move(table);
  if (warn_) warn_(fmt::format("the tuned table '{}' is passed over: {}", file.string(), table.error().message));
  return {};
}

}  // namespace headnorm
