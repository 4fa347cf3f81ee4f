// A Markdown table of the winners, for people.
#include <fmt/format.h>

#include "generator/export/format.h"

namespace headnorm::exports {
namespace {

// Text that can stand in a cell, whatever it holds: nothing in it is taken for a mark.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      escaped += ' ';
    else if (std::string("\\|`*_[]<>#&").find(c) != std::string::npos)
      escaped += std::string("\\") + c;
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace

Result<std::vector<File>> render_markdown(const std::vector<Row>& rows, const std::string&) {
  std::string text =
      "| device | target | units | kernel | rows | median us | GB/s | x copy | evidence | schedule |\n"
      "|---|---|---:|---|---:|---:|---:|---:|---|---|\n";
  for (const Row& row : rows) {
    const Record& record = row.record;
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {:.3f} | {:.1f} | {} | {} | {} |\n", cell(record.device.name),
                    cell(to_text(record.device.target)), record.device.units, cell(to_text(record.spec)), record.rows,
                    record.time.median_us, record.gb_per_s(), record.copy_ratio > 0 ? fmt::format("{:.2f}", record.copy_ratio) : "",
                    to_text(record.evidence), cell(to_text(record.schedule)));
  }
  return std::vector<File>{{"tuned.md", text}};
}

}  // namespace headnorm::exports
