// Facts of the machine's processor and memory, as the system reports them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headnorm::host {

std::string processor_name();
// The first "model name" in the text of /proc/cpuinfo, without blanks at its ends and with single ones inside; "unknown processor"
// if there is none.
std::string processor_name_from(std::string_view cpuinfo);

// Processors that this process may use, at least 1.
int usable_processors();

// Of the last level cache; 0 if the system does not say.
std::int64_t last_level_cache_bytes();

std::int64_t memory_bytes();

}  // namespace headnorm::host
