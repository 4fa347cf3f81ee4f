// What the shipped tables cost a process: its first look-up on a device reads the tables of the instruction set, a later one does
// not.
//
// usage: tables_bench DIRECTORY [ROUNDS]. Prints a line for each instruction set, of processor time: milliseconds of the first
// look-up and microseconds of a later one, each the median over the rounds with the 20th and 80th percentile.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "runtime/database/shipped_tables.h"

namespace {

using namespace headnorm;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string percentiles(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double fraction) {
    return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1))];
  };
  return fmt::format("{:8.2f} ({:.2f} to {:.2f})", at(0.5), at(0.2), at(0.8));
}

// Whether every look-up found a table.
bool measure(const char* directory, const Target& target, int rounds) {
  KernelSpec spec;
  spec.width = 4096;
  spec.head_size = 256;
  DeviceInfo device;
  device.target = target;
  std::vector<double> first_ms, later_us;
  bool found = true;
  for (int round = 0; round < rounds; ++round) {
    ShippedTables tables(directory);
    const double begin_s = processor_seconds();
    const Result<Lookup> first = tables.look_up(spec, 4096, device);
    const double read_s = processor_seconds();
    const Result<Lookup> later = tables.look_up(spec, 1024, device);
    first_ms.push_back((read_s - begin_s) * 1e3);
    later_us.push_back((processor_seconds() - read_s) * 1e6);
    found = found && first.ok() && first->record.has_value() && later.ok() && later->record.has_value();
  }
  if (found) fmt::print("{:<12} first {} ms, later {} us\n", to_text(target), percentiles(first_ms), percentiles(later_us));
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 51;
  if (argc < 2 || rounds < 1) {
    fmt::print(stderr, "usage: tables_bench DIRECTORY [ROUNDS]\n");
    return 2;
  }
  bool found = true;
  for (const char* target : {"sm_80+ptx74", "sm_90+ptx80", "sm_100+ptx88", "sm_120+ptx88", "x86-64-v3", "x86-64-v4"}) {
    const Result<Target> parsed = parse_target(target);
    if (!parsed.ok()) {
      fmt::print(stderr, "{}\n", parsed.error().message);
      return 2;
    }
    found = measure(argv[1], *parsed, rounds) && found;
  }
  if (!found) fmt::print(stderr, "'{}' lacks a table\n", argv[1]);
  return found ? 0 : 1;
}
