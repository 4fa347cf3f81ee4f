#include "cli/launch_json.h"

#include <fmt/format.h>

#include "core/artifact.h"
#include "core/launch_abi.h"
#include "runtime/device.h"

namespace headnorm::cli {
namespace {

Json shape_json(const KernelSpec& spec, Operand operand) {
  if (is_row_operand(operand)) return Json::array({"rows", spec.width});
  return Json::array({operand_elements(spec, operand)});
}

Json pointer_json(const KernelSpec& spec, Operand operand, const std::string& name) {
  return {{"name", name},
          {"kind", "pointer"},
          {"dtype", to_text(operand_dtype(spec, operand))},
          {"shape", shape_json(spec, operand)},
          {"access", is_output(operand) ? "write" : "read"}};
}

Json parameter_json(const KernelSpec& spec, const Parameter& parameter) {
  if (parameter.kind == ParameterKind::pointer) return pointer_json(spec, parameter.operand, parameter.name);
  return {{"name", parameter.name},
          {"kind", parameter.kind == ParameterKind::stride ? "stride" : "rows"},
          {"dtype", "i64"},
          {"shape", Json::array()}};
}

Json parameters_json(const KernelSpec& spec) {
  Json list = Json::array();
  for (const Parameter& parameter : launch_parameters(spec)) list.push_back(parameter_json(spec, parameter));
  return list;
}

// Bytes that each pointer, and each row stride times the size of an element, must be a multiple of.
Json alignment_json(const Plan& plan) {
  Json alignment = Json::object();
  for (Operand operand : kOperands) {
    if (has_operand(plan.spec, operand)) alignment[to_text(operand)] = alignment_bytes(plan, operand);
  }
  return alignment;
}

void add_gpu(const Plan& plan, Json& json) {
  const GpuPlan& shape = plan.gpu();
  json["ptx_version"] = fmt::format("{}.{}", plan.target.ptx / 10, plan.target.ptx % 10);
  json["parameters"] = parameters_json(plan.spec);
  const bool is_persistent = plan.gpu_schedule().grid == GridForm::persistent;
  std::string tiles = fmt::format("ceil(rows / {}) * {}", shape.rows_per_tile, shape.tiles_per_row);
  if (shape.cluster > 1) tiles += fmt::format(" * {}", shape.cluster);
  std::string rule = is_persistent ? "1 <= x <= " + tiles + ", best as many blocks as run at once" : "x = " + tiles;
  if (is_persistent && shape.cluster > 1) rule += fmt::format(", a multiple of {}", shape.cluster);
  json["grid"] = {{"rule", rule + "; y = 1, z = 1"},
                  {"form", to_text(plan.gpu_schedule().grid)},
                  {"rows_per_tile", shape.rows_per_tile},
                  {"tiles_per_row", shape.tiles_per_row},
                  {"max_rows_per_launch", shape.max_rows_per_launch}};
  json["block"] = Json::array({shape.block_threads, 1, 1});
  json["shared_bytes"] = shape.shared_bytes;  // part of the kernel
  json["dynamic_shared_bytes"] = shape.dynamic_shared_bytes;
  json["cluster"] = Json::array({shape.cluster, 1, 1});
  // The launch attribute that lets a kernel start while the one before it ends.
  const LaunchForm form = plan.gpu_schedule().launch;
  json["programmatic_stream_serialization"] = form != LaunchForm::plain;
  json["weights_read_ahead"] = form == LaunchForm::weights_ahead;  // the kernel before must not write them
}

// Host kernels all have the signature HostKernel of core/launch_abi.h: an array of pointers, an array of strides, a range of rows.
void add_host(const Plan& plan, Json& json) {
  json["signature"] = "void (void* const* pointers, const int64_t* strides, int64_t row_begin, int64_t row_end)";
  Json parameters = Json::array();
  for (const Json& parameter : parameters_json(plan.spec)) {
    if (parameter["kind"] != "rows") parameters.push_back(parameter);
  }
  parameters.push_back({{"name", "row_begin"}, {"kind", "rows"}, {"dtype", "i64"}, {"shape", Json::array()}});
  parameters.push_back({{"name", "row_end"}, {"kind", "rows"}, {"dtype", "i64"}, {"shape", Json::array()}});
  json["parameters"] = std::move(parameters);
  json["grid"] = {{"rule", "any division of the rows into ranges, each by one thread"}};
  json["block"] = Json::array({1, 1, 1});
  json["shared_bytes"] = 0;
  json["cluster"] = Json::array({1, 1, 1});
}

}  // namespace

Json launch_json(const Plan& plan) {
  Json json = {{"headnorm", HEADNORM_VERSION},
               {"entry", entry_name(plan)},
               {"target", to_text(plan.target)},
               {"spec", to_text(plan.spec)},
               {"schedule", to_text(plan.schedule)}};
  if (plan.target.kind == TargetKind::gpu)
    add_gpu(plan, json);
  else
    add_host(plan, json);
  json["alignment"] = alignment_json(plan);
  return json;
}

}  // namespace headnorm::cli
