// What the tests of right invocations share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/command.h"

namespace headnorm::test {

using nlohmann::json;
using Words = std::vector<std::string>;

inline Words join(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The document of a run that succeeds.
inline json answer(const Command& command, const Words& arguments) {
  const CommandResult result = command.run(join(arguments, {"--json"}));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  const json document = result.json();
  EXPECT_EQ(document.value("ok", false), true);
  EXPECT_TRUE(document.contains("headnorm"));
  EXPECT_TRUE(document.contains("verb"));
  EXPECT_FALSE(document.contains("error"));
  return document;
}

inline void expect_keys(const json& object, const Words& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key << " in\n" << object.dump(2);
}

}  // namespace headnorm::test
