// Makes the database of samples.h: make_export_database DIR.
#include <cstdio>

#include "tests/exports/samples.h"

int main(int argc, char** argv) {
  using namespace headnorm;
  if (argc != 2) return 2;
  Result<std::unique_ptr<Database>> database = Database::open(argv[1]);
  const Result<MergeCounts> merged =
      database.ok() ? (*database)->merge(test::entries_of(test::sample_rows())) : Result<MergeCounts>(database.error());
  if (merged.ok()) return 0;
  std::fprintf(stderr, "%s\n", merged.error().message.c_str());
  return 1;
}
