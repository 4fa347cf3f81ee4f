#include "runtime/database/table_digest.h"

#include <map>

#include "core/digest.h"

namespace headnorm {

std::string table_digest(const std::vector<Record>& records) {
  std::map<std::string, std::string> texts;
  for (const Record& record : records) texts.emplace(record.id, to_json(record));
  DigestBuilder digest;
  for (const auto& [id, text] : texts) digest.add(id, text);
  return digest.hex();
}

}  // namespace headnorm
