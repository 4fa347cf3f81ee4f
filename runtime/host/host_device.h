// How the host device divides a launch among threads.
#pragma once

#include <cstdint>

namespace headnorm::host {

// A share that moves less than this is not worth waking a thread for.
inline constexpr std::int64_t kMinShareBytes = std::int64_t{1} << 20;

inline constexpr int kMaxThreads = 1024;  // of a host device

// At least 1, at most `threads` and `rows`.
int share_count(std::int64_t rows, std::int64_t total_bytes, int threads);

struct RowRange {
  std::int64_t begin, end;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// Contiguous, in order, together all rows, of sizes that differ by at most one row.
RowRange share_of_rows(std::int64_t rows, int shares, int index);

}  // namespace headnorm::host
