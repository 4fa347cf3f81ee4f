#include "runtime/database/kernel_limit.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

#include "runtime/database/kernel_files.h"

namespace headnorm {
namespace {

constexpr std::int64_t kMarkSeconds = 3600;

struct Entry {
  std::string name, blob;  // blob: empty if the entry cannot be read
  Directory::FileFacts facts;
};

struct Contents {
  std::vector<Entry> entries;                         // used last first
  std::map<std::string, Directory::FileFacts> blobs;  // and whatever else lies there
};

Result<Contents> list_contents(const Directory& kernels) {
  HEADNORM_TRY(const std::vector<std::string> names, kernels.names());
  const KernelFiles files(kernels);
  Contents contents;
  for (const std::string& name : names) {
    const auto facts = kernels.examine(name);
    if (!facts) continue;  // removed since it was listed, or none of ours
    if (const auto entry = files.code_of(name))
      contents.entries.push_back({name, *entry, *facts});
    else
      contents.blobs.emplace(name, *facts);
  }
  std::ranges::stable_sort(contents.entries, std::greater(), [](const Entry& entry) { return entry.facts.modified_s; });
  return contents;
}

// What there is, from the facts of the files alone.
Result<Collected> measure(const Directory& kernels) {
  HEADNORM_TRY(const std::vector<std::string> names, kernels.names());
  Collected all;
  for (const std::string& name : names) {
    const auto facts = kernels.examine(name);
    if (!facts) continue;
    all.kept_bytes += facts->size;
    all.kept += name.ends_with(".json");
  }
  return all;
}

// One pass over the kernels of a directory.
class Pass {
 public:
  Pass(FileOps& ops, const Directory& kernels, const KernelLimit& limit) : ops_(ops), kernels_(kernels), limit_(limit) {}

  Collected run(const Contents& contents) {
    for (const Entry& entry : contents.entries) {
      const auto blob = contents.blobs.find(entry.blob);
      const bool shared = blob == contents.blobs.end() || blobs_kept_.contains(entry.blob);
      const std::int64_t bytes = entry.facts.size + (shared ? 0 : blob->second.size);
      const bool fits = !entry.blob.empty() && collected_.kept_bytes + bytes <= limit_.bytes;
      if (fits || !remove(entry.name, entry.facts)) {
        collected_.kept_bytes += bytes;
        ++collected_.kept;
        blobs_kept_.insert(entry.blob);
      } else {
        ++collected_.removed;
      }
    }
    for (const auto& [name, facts] : contents.blobs) {
      if (blobs_kept_.contains(name)) continue;
      if (!remove(name, facts)) collected_.kept_bytes += facts.size;
    }
    return collected_;
  }

 private:
  // Whether the file is gone. One that was written or used since it was listed stays.
  bool remove(const std::string& name, const Directory::FileFacts& listed) {
    const auto now = kernels_.examine(name);
    if (!now || now->modified_s != listed.modified_s) return !now;
    if (std::time(nullptr) - now->modified_s < limit_.grace_seconds) return false;
    if (ops_.remove(kernels_.descriptor(), name.c_str()) < 0) return false;
    collected_.removed_bytes += listed.size;
    return true;
  }

  FileOps& ops_;
  const Directory& kernels_;
  const KernelLimit& limit_;
  std::set<std::string> blobs_kept_;
  Collected collected_;
};

}  // namespace

Result<Collected> collect_kernels(FileOps& ops, const Directory& kernels, const KernelLimit& limit) {
  if (limit.bytes < 0 || limit.grace_seconds < 0)
    return user_error("a limit of the kernels is negative", "give a size and a time of 0 or more");
  HEADNORM_TRY(const Collected all, measure(kernels));
  if (all.kept_bytes <= limit.bytes) return all;
  HEADNORM_TRY(const Contents contents, list_contents(kernels));
  return Pass(ops, kernels, limit).run(contents);
}

void mark_used(FileOps& ops, const Directory& kernels, const std::string& artifact_key) {
  const std::string name = KernelFiles::entry_name(artifact_key);
  const auto facts = kernels.examine(name);
  // Where it cannot be touched the order is that of writing.
  if (facts && std::time(nullptr) - facts->modified_s > kMarkSeconds) (void)ops.touch(kernels.descriptor(), name.c_str());
}

}  // namespace headnorm
