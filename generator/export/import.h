// Import: records and their trials out of files that were exported. What such a file does not say of a record stands in its
// sidecar; nothing in either is trusted before it has passed the rules of a record.
//
// All functions refuse (user) what is not JSON, too large, nested too deeply, incomplete or contradicts itself.
#pragma once

#include <string_view>
#include <vector>

#include "core/result.h"
#include "runtime/database/merge.h"

namespace headnorm::exports {

inline constexpr std::size_t kMostImportBytes = std::size_t{64} << 20;  // of a file, decompressed

Result<std::vector<MergeEntry>> entries_from_csv(std::string_view text);

// The configuration with the least time wins. If it is the sidecar's, at that time, the sidecar's record is the result; otherwise
// somebody went on tuning, and the record has what the file says of the time. Evidence never becomes better by going through a
// file.
Result<std::vector<MergeEntry>> entries_from_kernel_tuner_cache(std::string_view text, std::string_view sidecar);
Result<std::vector<MergeEntry>> entries_from_t4(std::string_view text, std::string_view sidecar);

}  // namespace headnorm::exports
