// Files in which a test hands launches to a program of another instruction set, and gets back what they did to memory.
#pragma once

#include <string>
#include <vector>

#include "tests/support/launch_tensors.h"

namespace headnorm::test {

struct LaunchCase {
  std::string spec, schedule, target;  // canonical texts
  std::string entry, object;           // of the compiled kernel
  std::int64_t rows = 0;
  Layout layout;
  std::vector<std::string> images;  // of the tensors, before the launch
};

struct LaunchResult {
  std::string error;                // "" or why there is no result
  std::vector<std::string> images;  // after the launch
};

std::vector<std::string> images_of(LaunchTensors& tensors);
// False if the images are not those of such tensors.
bool set_images(LaunchTensors& tensors, const std::vector<std::string>& images);

// The bytes of a file of cases or results are those of its parts, one after the other.
std::string to_bytes(const LaunchCase& launch);
std::string to_bytes(const LaunchResult& result);

// As many whole ones as `bytes` begins with.
std::vector<LaunchCase> cases_in(const std::string& bytes);
std::vector<LaunchResult> results_in(const std::string& bytes);

}  // namespace headnorm::test
