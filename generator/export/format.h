// Format: a file format of another project that records can be written in. One source file a format; docs/exports.md says who
// reads each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "generator/export/row.h"

namespace headnorm::exports {

// How the files of a format come by their names.
enum class Naming {
  free,   // one file, named as the user likes
  many,   // one file for each record or kernel: a directory where there are several
  fixed,  // the reader finds a file by its name: always a directory
};

struct Format {
  const char* name;     // on the command line
  const char* summary;  // what it is for, in a few words
  Naming naming;
  bool gpu_only;  // rows of a host are left out
  bool gzip;      // published compressed, by custom
  // `rows` are canonical and not empty. Errors (user): the format cannot hold them.
  Result<std::vector<File>> (*render)(const std::vector<Row>& rows, const std::string& tool);
};

std::span<const Format> formats();
// Null: no such format.
const Format* find_format(const std::string& name);

Result<std::vector<File>> render_c_header(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_csv(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_kernel_tuner_cache(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_kernel_tuner_results(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_markdown(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_t4(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_t4_ktt(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_triton(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_vllm(const std::vector<Row>& rows, const std::string& tool);
Result<std::vector<File>> render_wisdom(const std::vector<Row>& rows, const std::string& tool);

// The same bytes for the same bytes: no time and no name in its header. Error (internal): the library fails.
Result<std::string> gzipped(const std::string& bytes);
// Error (user): not gzip, damaged, or more than `max_bytes`.
Result<std::string> gunzipped(const std::string& bytes, std::size_t max_bytes);

}  // namespace headnorm::exports
