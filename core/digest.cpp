#include "core/digest.h"

#include <fmt/format.h>
#include <sodium/crypto_hash_sha256.h>

namespace headnorm {

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(digest, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  std::string hex;
  for (unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

DigestBuilder& DigestBuilder::add(std::string_view name, std::string_view value) {
  text_ += fmt::format("{}:{}={}:{};", name.size(), name, value.size(), value);
  return *this;
}

std::string DigestBuilder::hex() const { return sha256_hex(text_); }

}  // namespace headnorm
