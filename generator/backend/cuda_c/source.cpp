#include "generator/backend/cuda_c/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/artifact.h"
#include "core/cluster.h"
#include "generator/backend/cuda_c/body.h"
#include "generator/backend/cuda_c/description.h"
#include "generator/backend/cuda_c/expression.h"
#include "generator/backend/cuda_c/self_test.h"
#include "generator/backend/cuda_c/sweep.h"
#include "generator/backend/cuda_c/template.h"
#include "generator/backend/cuda_c/writer.h"
#include "generator/backend/gpu/plan_terms.h"

namespace headnorm::cuda_c {

using program::Instruction;
using program::Op;
using program::Program;

namespace {

bool has_op(const Program& program, Op op) {
  return std::any_of(program.instructions.begin(), program.instructions.end(),
                     [&](const Instruction& instruction) { return instruction.op == op; });
}

bool has_dtype(const Plan& plan, const Program& program, Dtype dtype) {
  const bool in_operands = std::any_of(std::begin(kOperands), std::end(kOperands), [&](Operand operand) {
    return has_operand(plan.spec, operand) && operand_dtype(plan.spec, operand) == dtype;
  });
  return in_operands || std::any_of(program.instructions.begin(), program.instructions.end(), [&](const Instruction& instruction) {
           return instruction.op == Op::round_to && instruction.dtype == dtype;
         });
}

// Those that `text` speaks of: a compiler warns of others.
std::string render_constants(const Plan& plan, const std::string& used_in) {
  const GpuPlan& shape = plan.gpu();
  std::string text;
  const auto add = [&](const char* name, std::int64_t value, std::string_view comment) {
    if (used_in.find(name) == std::string::npos) return;
    const std::string definition = fmt::format("constexpr int {} = {};", name, value);
    text += comment.empty() ? definition + "\n" : fmt::format("{:<36}  // {}\n", definition, comment);
  };
  const std::int64_t parts_per_tile = shape.groups_per_tile * plan.parts_per_group;
  add("kPartElements", plan.part_elements, "of a part: a head or a seed head, whichever is smaller");
  add("kLanes", shape.lanes, shape.cluster > 1 ? "threads of a block that share a part" : "threads that share a part");
  add("kCluster", shape.cluster, "blocks that share a part");
  add("kPartLanes", shape.part_lanes(), "their threads");
  add("kVector", shape.vector_elements, "consecutive elements that a lane takes at a time");
  add("kChunks", shape.chunks, "vectors of a part that a lane takes");
  add("kFullChunks", plan.part_elements / shape.chunk_elements(), "of them, those that lie within the part for every lane");
  add("kGranule", gpu::granule_elements(plan), "elements of a vector that lie within the part together, or past its end");
  add("kStages", shape.stages, "tiles that have room in shared memory");
  add("kStageBytes", shape.stage_bytes, "of a tile there");
  add("kPartsPerHead", plan.parts_per_head, "");
  add("kPartsPerGroup", plan.parts_per_group, "of a head or a seed head, whichever is larger");
  add("kPartsPerTile", parts_per_tile, "of one row of a tile, which is what a block works on at a time");
  add("kRowsPerTile", shape.rows_per_tile, "");
  add("kTilesPerRow", shape.tiles_per_row, "");
  add("kSlots", parts_per_tile * shape.rows_per_tile, "parts of a tile, of all its rows");
  add("kBlockThreads", shape.block_threads, "");
  return text;
}

// Rows keep their place among the other instructions: the kernel before may have written them.
std::vector<Slot> cached_rows() {
  return {{"what", "rows, past L1, the last time that they are read"},
          {"name", "row"},
          {"asm", "asm volatile"},
          {"instruction", "ld.global.L1::no_allocate.L2::cache_hint"}};
}

std::vector<Slot> cached_weights(const Plan& plan) {
  const bool may_be_written = plan.gpu_schedule().launch == LaunchForm::dependent;
  return {{"what", may_be_written ? "weights, which the kernel before may write" : "weights, by the read-only cache"},
          {"name", "weight"},
          {"asm", may_be_written ? "asm volatile" : "asm"},
          {"instruction", may_be_written ? "ld.global.L1::no_allocate.L2::cache_hint" : "ld.global.nc.L2::cache_hint"}};
}

// With and without a policy for L2.
std::vector<Slot> staging_slots(const Plan& plan) {
  const bool is_bulk = plan.gpu_schedule().staging == Staging::bulk, has_policy = plan.gpu_schedule().cache == CacheUse::stream;
  std::vector<Slot> slots = {{"policy_parameter", has_policy ? ", unsigned long long policy" : ""},
                             {"hint", has_policy ? ".L2::cache_hint" : ""},
                             {"hint_operand", !has_policy ? ""
                                              : is_bulk   ? ", %4"
                                                          : ", %3"},
                             {"hint_input", has_policy ? ", \"l\"(policy)" : ""}};
  if (is_bulk) slots.push_back({"policy_argument", has_policy ? ", policy" : ""});
  return slots;
}

// The helpers that the body uses, and no others: a compiler warns of those.
Result<std::string> render_helpers(const Plan& plan, const Program& program) {
  HEADNORM_TRY(std::string text, fill_template("element"));
  const auto add = [&](std::string_view name, const std::vector<Slot>& slots = {}) -> Result<void> {
    HEADNORM_TRY(const std::string part, fill_template(name, slots));
    text += part;
    return {};
  };
  const bool widens_f32 = plan.spec.weight == WeightForm::head && plan.spec.weight_dtype == Dtype::f32;
  if (widens_f32) HEADNORM_CHECK(add("element_f32"));
  if (has_dtype(plan, program, Dtype::bf16)) HEADNORM_CHECK(add("element_bf16"));
  if (has_dtype(plan, program, Dtype::f16)) HEADNORM_CHECK(add("element_f16"));
  const bool exact = plan.gpu().exact;
  const char* const store_condition = exact ? "" : "if (inside(lane, chunk, i)) ";
  HEADNORM_TRY(const std::string place,
               fill_template(exact ? "place_exact" : "place_tail", {{"lanes", plan.gpu().cluster > 1 ? "kPartLanes" : "kLanes"}}));
  HEADNORM_CHECK(add("vector", {{"place", place}, {"store_condition", store_condition}}));
  if (plan.gpu_schedule().cache == CacheUse::stream) {
    HEADNORM_CHECK(add("cache", {{"store_condition", store_condition}}));
    HEADNORM_CHECK(add("cache_load", cached_rows()));
    HEADNORM_CHECK(add("cache_load", cached_weights(plan)));
  }
  if (has_op(program, Op::round_to)) HEADNORM_CHECK(add("round"));
  if (plan.gpu().packed) HEADNORM_CHECK(add("pairs"));
  if (plan.gpu().stages > 0) {
    const bool is_bulk = plan.gpu_schedule().staging == Staging::bulk;
    const bool reads_inside = is_bulk && !exact;  // nothing was brought past the end
    HEADNORM_CHECK(add(
        "stage", {{"place", reads_inside ? "(inside(lane, chunk, i) ? staged(chunk, i) : i % kGranule)" : "staged(chunk, i)"}}));
    if (plan.gpu_schedule().grid == GridForm::persistent) HEADNORM_CHECK(add("later_tile"));
    HEADNORM_CHECK(add(is_bulk ? "stage_bulk" : "stage_async", staging_slots(plan)));
  } else if (plan.gpu().dynamic_shared_bytes > 0) {
    HEADNORM_CHECK(add("kept"));
  }
  HEADNORM_CHECK(add("reduce"));
  if (plan.gpu().shared_bytes > 0) HEADNORM_CHECK(add("block_reduce"));
  if (has_op(program, Op::clamp)) HEADNORM_CHECK(add("clamp"));
  if (has_op(program, Op::inverse_power)) HEADNORM_CHECK(add("inverse_power"));
  if (plan.gpu().cluster > 1) HEADNORM_CHECK(add("cluster"));
  if (plan.gpu_schedule().launch != LaunchForm::plain) HEADNORM_CHECK(add("follow"));
  HEADNORM_CHECK(add("tile"));
  return text;
}

// Weights alone are never written while the kernel runs: rows may be normalised in place. A kernel that starts before the one
// before it has ended may see that one write weights, too.
std::string render_parameters(const Plan& plan) {
  const bool may_change = plan.gpu_schedule().launch == LaunchForm::dependent;
  std::vector<std::string> parameters;
  for (const Parameter& parameter : launch_parameters(plan.spec)) {
    if (parameter.kind != ParameterKind::pointer) {
      parameters.push_back("long long " + parameter.name);
      continue;
    }
    parameters.push_back(fmt::format("{}{}* {}{}_ptr", is_output(parameter.operand) ? "" : "const ",
                                     type_name(operand_dtype(plan.spec, parameter.operand)),
                                     is_row_operand(parameter.operand) || may_change ? "" : "__restrict__ ", parameter.name));
  }
  return join_lines(parameters, 8);
}

Result<std::string> render_grid(const Plan& plan) {
  const bool has_clusters = plan.gpu().cluster > 1;
  std::vector<Slot> slots = {{"times_cluster", has_clusters ? " * kCluster" : ""}};
  if (plan.gpu_schedule().grid == GridForm::once) return fill_template("grid_once", slots);
  slots.push_back({"per_cluster", has_clusters ? " / kCluster" : ""});
  slots.push_back({"entry", entry_name(plan)});
  return fill_template("grid_persistent", slots);
}

Result<std::string> render_launcher(const Plan& plan) {
  std::vector<std::string> parameters = {"cudaStream_t stream"}, arguments;
  std::string checks;
  for (const Parameter& parameter : launch_parameters(plan.spec)) {
    if (parameter.kind != ParameterKind::pointer) {
      parameters.push_back("long long " + parameter.name);
      arguments.push_back(parameter.name);
      continue;
    }
    const std::string type =
        (is_output(parameter.operand) ? "" : "const ") + type_name(operand_dtype(plan.spec, parameter.operand));
    parameters.push_back(fmt::format("{}void* {}", is_output(parameter.operand) ? "" : "const ", parameter.name));
    arguments.push_back(fmt::format("static_cast<{}*>({})", type, parameter.name));
    const int bytes = operand_access_bytes(plan, parameter.operand), size = size_bytes(operand_dtype(plan.spec, parameter.operand));
    checks += fmt::format("  if (reinterpret_cast<unsigned long long>({}) % {} != 0) return cudaErrorMisalignedAddress;\n",
                          parameter.name, bytes);
    if (is_row_operand(parameter.operand) && bytes > size)
      checks += fmt::format("  if ({}_stride % {} != 0) return cudaErrorMisalignedAddress;\n", parameter.name, bytes / size);
  }
  HEADNORM_TRY(const std::string grid, render_grid(plan));
  const bool is_plain = plan.gpu_schedule().launch == LaunchForm::plain;
  HEADNORM_TRY(const std::string launch, fill_template(is_plain ? "launch_plain" : "launch_dependent",
                                                       {{"entry", entry_name(plan)}, {"arguments", join_lines(arguments, 6)}}));
  HEADNORM_TRY(const std::string shared, plan.gpu().dynamic_shared_bytes > 0
                                             ? fill_template("dynamic_shared", {{"entry", entry_name(plan)}})
                                             : Result<std::string>(std::string()));
  HEADNORM_TRY(const std::string cluster, plan.gpu().cluster > kPortableCluster
                                              ? fill_template("large_cluster", {{"entry", entry_name(plan)}})
                                              : Result<std::string>(std::string()));
  return fill_template("launcher", {{"entry", entry_name(plan)},
                                    {"parameters", join_lines(parameters, 4)},
                                    {"max_rows", fmt::to_string(plan.gpu().max_rows_per_launch)},
                                    {"checks", checks},
                                    {"dynamic_shared_bytes", fmt::to_string(plan.gpu().dynamic_shared_bytes)},
                                    {"cluster", cluster},
                                    {"shared", shared},
                                    {"grid", grid},
                                    {"launch", launch}});
}

}  // namespace

Result<std::string> render_source(const Plan& plan, const Program& program) {
  if (plan.target.kind != TargetKind::gpu)
    return user_error(fmt::format("CUDA C is for GPUs, and {} is a host target", to_text(plan.target)),
                      "give a GPU, e.g. --target sm_90");
  const Program form = program::form_of(plan, program);
  HEADNORM_TRY(const std::string helpers, render_helpers(plan, form));
  HEADNORM_TRY(const std::string body, render_body(plan, form));
  HEADNORM_TRY(const std::string launcher, render_launcher(plan));
  const std::string attributes = plan.gpu().cluster > 1 ? " __cluster_dims__(kCluster, 1, 1)" : "";
  HEADNORM_TRY(const std::string self_test, render_self_test(plan));
  return fill_template("kernel", {{"header", render_description(plan)},
                                  {"arch", processor_name(plan.target)},
                                  {"entry", entry_name(plan)},
                                  {"constants", render_constants(plan, helpers + body + launcher + attributes)},
                                  {"helpers", helpers},
                                  {"attributes", attributes},
                                  {"parameters", render_parameters(plan)},
                                  {"body", body},
                                  {"launcher", launcher},
                                  {"self_test", self_test}});
}

}  // namespace headnorm::cuda_c
