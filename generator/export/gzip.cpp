#include <fmt/format.h>
#include <zlib.h>

#include "generator/export/format.h"

namespace headnorm::exports {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window, with a header of gzip
constexpr std::size_t kChunk = std::size_t{1} << 16;

}  // namespace

Result<std::string> gzipped(const std::string& bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    return internal_error("zlib cannot begin to compress");
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) return internal_error(fmt::format("zlib cannot compress {} bytes", bytes.size()));
  return out;
}

Result<std::string> gunzipped(const std::string& bytes, std::size_t max_bytes) {
  const Error damaged = user_error("it is not gzip, or damaged", "decompress it yourself, or export it again");
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return internal_error("zlib cannot begin to decompress");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int status = Z_OK;
  while (status == Z_OK && out.size() <= max_bytes) {
    const std::size_t filled = out.size();
    out.resize(filled + kChunk);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(kChunk);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (status == Z_OK && out.size() == filled) status = Z_BUF_ERROR;  // it ends in the middle
  }
  inflateEnd(&stream);
  if (out.size() > max_bytes) return user_error(fmt::format("it decompresses to more than {} bytes", max_bytes), "split it");
  if (status != Z_STREAM_END) return damaged;
  return out;
}

}  // namespace headnorm::exports
