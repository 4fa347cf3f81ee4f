#include "runtime/database/kernel_files.h"

#include <fmt/format.h>

#include <array>

#include "core/digest.h"
#include "core/text.h"
#include "runtime/database/sealed_json.h"

namespace headnorm {
namespace {

using sealed_json::Json;
using sealed_json::Reader;

constexpr int kFormat = 1;
constexpr std::size_t kDigestDigits = 64;
constexpr std::size_t kMaxKernelBytes = std::size_t{64} << 20;

std::string blob_name(const std::string& sha256, ArtifactKind kind) { return fmt::format("{}.{}", sha256, file_extension(kind)); }
std::string pointer_name(const std::string& key) { return key + ".json"; }

Error damaged(std::string reason) { return user_error(std::move(reason), "delete the file; it is made again on demand"); }
Error in_file(const std::string& name, const Error& error) {
  return {error.kind, fmt::format("kernels/{}: {}", name, error.message), error.remedy};
}

bool is_identifier(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string_view::npos;
}

// What an assembler says of one kernel is a few lines; one that says more is cut, for the entry must stay readable.
constexpr std::size_t kMostLogBytes = 4096;

// JSON holds UTF-8 alone; the log of a tool is ASCII, or was.
std::string printable(std::string_view log) {
  std::string text(log.substr(0, kMostLogBytes));
  for (char& c : text) {
    if (c != '\n' && (c < ' ' || c > '~')) c = '?';
  }
  return text;
}

std::string pointer_json(const StoredKernel& kernel, std::string_view log) {
  Json json = {{"format", kFormat},
               {"key", kernel.key},
               {"backend", kernel.backend},
               {"entry", kernel.entry},
               {"kind", to_text(kernel.kind)},
               {"blob_sha256", kernel.sha256}};
  if (kernel.kind == ArtifactKind::cubin) json["log"] = printable(log);
  return sealed_json::write(json);
}

Result<StoredKernel> pointer_from_json(std::string_view text) {
  HEADNORM_TRY(const Json json, sealed_json::read(text));
  Reader fields(json, "kernel");
  HEADNORM_CHECK(fields.integer("format", kFormat, kFormat));
  StoredKernel kernel;
  HEADNORM_TRY(kernel.key, fields.hex("key", kDigestDigits));
  HEADNORM_TRY(kernel.backend, fields.text("backend"));
  HEADNORM_TRY(kernel.entry, fields.text("entry"));
  HEADNORM_TRY(const std::string kind, fields.text("kind"));
  HEADNORM_TRY(kernel.kind,
               text::parse_enum(kind, "kind of kernel", std::array{ArtifactKind::object, ArtifactKind::ptx, ArtifactKind::cubin}));
  HEADNORM_TRY(kernel.sha256, fields.hex("blob_sha256", kDigestDigits));
  if (kernel.kind == ArtifactKind::cubin) HEADNORM_CHECK(fields.text("log"));
  HEADNORM_CHECK(fields.finish());
  return kernel;
}

}  // namespace

Result<StoredKernel> KernelFiles::store(FileOps& ops, const Artifact& artifact, const std::string& log) const {
  if (!sealed_json::is_hex(artifact.key, kDigestDigits) || !is_identifier(artifact.entry) || artifact.bytes.empty() ||
      artifact.bytes.size() > kMaxKernelBytes)
    return internal_error(fmt::format("artifact '{}' with entry '{}' of {} bytes is not one that can be stored", artifact.key,
                                      artifact.entry, artifact.bytes.size()));
  const StoredKernel kernel = {sha256_hex(artifact.bytes), artifact.kind, artifact.entry, artifact.key, artifact.backend};
  const Result<std::optional<Artifact>> present = load(kernel);
  if (present.ok() && present->has_value()) return kernel;
  const Result<void> published = kernels_.publish(ops, blob_name(kernel.sha256, kernel.kind), artifact.bytes);
  if (!published.ok()) {  // some file systems refuse to replace what another writer has just put there: it has the same bytes
    const Result<std::optional<Artifact>> there = read_blob(kernel);
    if (!there.ok() || !there->has_value()) return published.error();
  }
  HEADNORM_CHECK(kernels_.publish(ops, pointer_name(kernel.key), pointer_json(kernel, log)));
  return kernel;
}

std::string KernelFiles::entry_name(const std::string& artifact_key) { return pointer_name(artifact_key); }

std::optional<std::string> KernelFiles::code_of(const std::string& name) const {
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos || pointer_name(name.substr(0, dot)) != name) return std::nullopt;
  const Result<std::optional<StoredKernel>> kernel = read_pointer(name.substr(0, dot));
  return kernel.ok() && kernel->has_value() ? blob_name((*kernel)->sha256, (*kernel)->kind) : std::string();
}

Result<std::optional<StoredKernel>> KernelFiles::read_pointer(const std::string& key) const {
  if (!sealed_json::is_hex(key, kDigestDigits))
    return user_error(fmt::format("'{}' is not an artifact key", key), "give 64 hexadecimal digits");
  HEADNORM_TRY(const std::optional<std::string> text, kernels_.read(pointer_name(key), sealed_json::kMaxBytes));
  if (!text.has_value()) return std::optional<StoredKernel>();
  HEADNORM_TRY(StoredKernel kernel, pointer_from_json(*text));
  if (kernel.key != key) return damaged(fmt::format("it is the entry of key {}", kernel.key));
  return std::optional<StoredKernel>(std::move(kernel));
}

Result<std::optional<Artifact>> KernelFiles::read_blob(const StoredKernel& kernel) const {
  HEADNORM_TRY(std::optional<std::string> bytes, kernels_.read(blob_name(kernel.sha256, kernel.kind), kMaxKernelBytes));
  if (!bytes.has_value()) return std::optional<Artifact>();
  if (sha256_hex(*bytes) != kernel.sha256) return damaged("its bytes do not have the hash that is its name");
  return std::optional<Artifact>(Artifact{kernel.kind, kernel.entry, std::move(*bytes), kernel.key, kernel.backend});
}

Result<std::optional<Artifact>> KernelFiles::find(const std::string& artifact_key) const {
  const Result<std::optional<StoredKernel>> kernel = read_pointer(artifact_key);
  if (!kernel.ok()) return in_file(pointer_name(artifact_key), kernel.error());
  if (!kernel->has_value()) return std::optional<Artifact>();
  Result<std::optional<Artifact>> artifact = read_blob(**kernel);
  if (!artifact.ok()) return in_file(blob_name((*kernel)->sha256, (*kernel)->kind), artifact.error());
  return artifact;
}

Result<std::optional<Artifact>> KernelFiles::load(const StoredKernel& kernel) const {
  HEADNORM_TRY(std::optional<Artifact> artifact, find(kernel.key));
  if (!artifact.has_value()) return artifact;
  if (sha256_hex(artifact->bytes) != kernel.sha256 || artifact->kind != kernel.kind || artifact->entry != kernel.entry ||
      artifact->backend != kernel.backend)
    return in_file(pointer_name(kernel.key), damaged(fmt::format("it names another kernel than {}", kernel.sha256)));
  return artifact;
}

std::string KernelFiles::check_file(const std::string& name) const {
  const std::size_t dot = name.find('.');
  const std::string stem = name.substr(0, dot), extension = dot == std::string::npos ? "" : name.substr(dot + 1);
  if (!sealed_json::is_hex(stem, kDigestDigits)) return "is not a file of the database";
  if (extension == "json") {
    const Result<std::optional<StoredKernel>> kernel = read_pointer(stem);
    if (!kernel.ok()) return kernel.error().message;
    if (!kernel->has_value()) return "";  // removed since it was listed
    const Result<std::optional<Artifact>> blob = read_blob(**kernel);
    if (blob.ok() && !blob->has_value()) return fmt::format("names kernel {}, which is missing", (*kernel)->sha256);
    return "";  // a damaged blob is reported as itself
  }
  for (ArtifactKind kind : {ArtifactKind::object, ArtifactKind::ptx, ArtifactKind::cubin}) {
    if (extension != file_extension(kind)) continue;
    const Result<std::optional<Artifact>> blob = read_blob({stem, kind, "", "", ""});
    return blob.ok() ? "" : blob.error().message;
  }
  return "is not a file of the database";
}

Result<std::vector<Damage>> KernelFiles::check() const {
  HEADNORM_TRY(const std::vector<std::string> names, kernels_.names());
  std::vector<Damage> damage;
  for (const std::string& name : names) {
    if (std::string reason = check_file(name); !reason.empty()) damage.push_back({"kernels/" + name, std::move(reason)});
  }
  return damage;
}

}  // namespace headnorm
