// Prints the PTX of a grid of plans, with an unusual locale where the environment asks for one: run twice by a test of determinism.
#include <cstdlib>
#include <iostream>
#include <locale>

#include "generator/generator.h"
#include "tests/support/ptx_grid.h"

namespace {

class Commas : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace

int main() {
  const char* locale = std::getenv("LC_ALL");
  if (locale != nullptr && std::string(locale) != "C") std::locale::global(std::locale(std::locale(), new Commas));
  const auto backend = headnorm::make_llvm_backend();
  for (const headnorm::Target& target : headnorm::gpu_targets()) {
    for (const headnorm::Plan& plan : headnorm::test::sampled_plans(target, 10)) {
      const auto artifact = backend->compile(plan);
      if (!artifact.ok()) return 1;
      std::cout << artifact->key << "\n" << artifact->bytes;
    }
  }
  return 0;
}
