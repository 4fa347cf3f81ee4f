#include "generator/backend/nvptx/header.h"

#include <fmt/format.h>

#include "core/artifact.h"
#include "core/counted.h"

namespace headnorm::nvptx {
namespace {

std::string describe(const Plan& plan, const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::stride:
      return "i64, elements from one row to the next";
    case ParameterKind::rows:
      return "i64, at least 1";
    case ParameterKind::pointer:
      break;
  }
  const KernelSpec& spec = plan.spec;
  const std::int64_t elements = operand_elements(spec, parameter.operand);
  const std::string shape = is_row_operand(parameter.operand) ? fmt::format("[rows, {}]", elements) : fmt::format("[{}]", elements);
  return fmt::format("{} {}, aligned to {} bytes", to_text(operand_dtype(spec, parameter.operand)), shape,
                     operand_access_bytes(plan, parameter.operand));
}

}  // namespace

std::string render_header(const Plan& plan) {
  const GpuPlan& shape = plan.gpu();
  std::string text = fmt::format("// {}\n", entry_name(plan));
  auto line = [&](std::string_view key, const std::string& value) { text += fmt::format("//   {:<14} {}\n", key, value); };
  line("spec", to_text(plan.spec));
  line("schedule", to_text(plan.schedule));
  line("target", to_text(plan.target));
  line("block",
       fmt::format("{}: {} of {} of {} of {}, {} a part", counted(shape.block_threads, "thread"),
                   counted(shape.rows_per_tile, "row"), counted(shape.groups_per_tile, "group"),
                   counted(plan.parts_per_group, "part"), counted(plan.part_elements, "element"), counted(shape.lanes, "lane")));
  const bool is_persistent = plan.gpu_schedule().grid == GridForm::persistent;
  line("grid", fmt::format("{}ceil(rows / {}) * {} {} in x; at most {} rows", is_persistent ? "1 to " : "", shape.rows_per_tile,
                           shape.tiles_per_row, shape.cluster > 1 ? "clusters" : "blocks", shape.max_rows_per_launch));
  if (shape.cluster > 1) line("cluster", fmt::format("{} blocks share a part", shape.cluster));
  line("shared memory", fmt::format("{} bytes, static", shape.shared_bytes));
  if (shape.dynamic_shared_bytes > 0) line("", fmt::format("{} bytes, dynamic", shape.dynamic_shared_bytes));
  if (shape.stages > 0) line("stages", fmt::format("{} of {} bytes: x, then residual", shape.stages, shape.stage_bytes));
  if (const LaunchForm form = plan.gpu_schedule().launch; form != LaunchForm::plain)
    line("launch", form == LaunchForm::dependent ? "may start while the kernel before it ends"
                                                 : "may start while the kernel before it ends, which must not write the weights");
  text += "// parameters\n";
  for (const Parameter& parameter : launch_parameters(plan.spec)) line(parameter.name, describe(plan, parameter));
  return text + "\n";
}

}  // namespace headnorm::nvptx
