// KernelFiles: the directory DB/kernels. Holds code that will run in this process, so it must be this user's alone.
//
// A blob is named by the hash of its bytes; <artifact key>.json names the blob of a key by that hash, so that the two files can
// come from different writers and still never make a wrong pair.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/database/database.h"
#include "runtime/database/directory.h"

namespace headnorm {

class KernelFiles {
 public:
  // `kernels` must be of Trust::code and outlive this.
  explicit KernelFiles(const Directory& kernels) : kernels_(kernels) {}

  // `log` is kept with a cubin.
  Result<StoredKernel> store(FileOps& ops, const Artifact& artifact, const std::string& log) const;

  // None if absent. Errors: why it is passed over.
  Result<std::optional<Artifact>> find(const std::string& artifact_key) const;

  // The kernel that a record names, if the pointer of its key names the same one: a record may come from another machine, and which
  // code belongs to a key is for this user's own files to say.
  Result<std::optional<Artifact>> load(const StoredKernel& kernel) const;

  // The file of a key's entry; and the file of the code that the entry in the file `name` names: empty if the entry is damaged,
  // none if `name` is no entry's.
  static std::string entry_name(const std::string& artifact_key);
  std::optional<std::string> code_of(const std::string& name) const;

  // Reads every file.
  Result<std::vector<Damage>> check() const;

 private:
  Result<std::optional<StoredKernel>> read_pointer(const std::string& key) const;
  Result<std::optional<Artifact>> read_blob(const StoredKernel& kernel) const;
  std::string check_file(const std::string& name) const;  // what is wrong, or empty

  const Directory& kernels_;
};

}  // namespace headnorm
