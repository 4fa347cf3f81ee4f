#include "runtime/host/processor.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <thread>

namespace headnorm::host {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "32K", "1024K", "260M".
std::int64_t parse_cache_size(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() + text.size()) return 0;
  return *end == 'K' ? value << 10 : *end == 'M' ? value << 20 : 0;
}

}  // namespace

std::string processor_name_from(std::string_view cpuinfo) {
  constexpr std::string_view kField = "model name";
  const std::size_t field = cpuinfo.find(kField);
  const std::size_t colon = field == std::string_view::npos ? field : cpuinfo.find(':', field);
  if (colon == std::string_view::npos) return "unknown processor";
  std::string name;
  for (char c : cpuinfo.substr(colon + 1, cpuinfo.find('\n', colon) - colon - 1)) {
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    if (!blank) name += c;
    if (blank && !name.empty() && name.back() != ' ') name += ' ';
  }
  if (!name.empty() && name.back() == ' ') name.pop_back();
  return name.empty() ? "unknown processor" : name;
}

std::string processor_name() { return processor_name_from(read_text("/proc/cpuinfo")); }

int usable_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(1, CPU_COUNT(&mask));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more processors than the mask holds
}

std::int64_t last_level_cache_bytes() {
  std::int64_t bytes = 0;
  for (int index = 0;; ++index) {  // in order of level
    const std::string size = read_text(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    if (size.empty()) break;
    bytes = std::max(bytes, parse_cache_size(size));
  }
  if (bytes > 0) return bytes;
  return std::max<std::int64_t>(0, ::sysconf(_SC_LEVEL3_CACHE_SIZE));
}

std::int64_t memory_bytes() { return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE); }

}  // namespace headnorm::host
