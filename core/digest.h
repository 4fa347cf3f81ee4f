// SHA-256 digests: the names of kernels and records.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace headnorm {

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

// Digest of a list of named parts, unambiguous whatever they contain (each is preceded by its length).
class DigestBuilder {
 public:
  DigestBuilder& add(std::string_view name, std::string_view value);
  std::string hex() const;

 private:
  std::string text_;
};

}  // namespace headnorm
