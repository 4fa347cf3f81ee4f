#include "cli/plan_facts.h"

#include <algorithm>

#include "generator/generator.h"
#include "generator/program/cost.h"

namespace headnorm::cli {
namespace {

void add_host(const HostPlan& shape, Json& json) {
  json["lanes"] = shape.lanes;
  json["order"] = shape.order == LaneOrder::even_odd ? "even_odd" : "memory";
  json["line_elements"] = shape.line_elements;
  json["lines_per_part"] = shape.lines_per_part;
  json["tail_elements"] = shape.tail_elements;
  json["unrolled"] = shape.unrolled;
  json["groups_per_block"] = shape.groups_per_block;
  json["rows_per_block"] = shape.rows_per_block;
  json["tile_parts"] = shape.tile_parts;
  json["accumulators"] = shape.accumulators;
  json["registers"] = shape.registers;
  json["y_alignment"] = shape.y_alignment;
}

Json reduction_json(const GpuReduction& reduction) {
  return {{"shuffle_lanes", reduction.shuffle_lanes}, {"partials", reduction.partials}};
}

void add_gpu(const GpuPlan& shape, Json& json) {
  json["lanes"] = shape.lanes;
  json["cluster"] = shape.cluster;
  json["vector_elements"] = shape.vector_elements;
  json["chunks"] = shape.chunks;
  json["exact"] = shape.exact;
  json["unroll"] = shape.unroll;
  json["packed"] = shape.packed;
  json["groups_per_tile"] = shape.groups_per_tile;
  json["rows_per_tile"] = shape.rows_per_tile;
  json["tiles_per_row"] = shape.tiles_per_row;
  json["weights_stay"] = shape.weights_stay;
  json["block_threads"] = shape.block_threads;
  json["over_part"] = reduction_json(shape.over_part);
  json["over_group"] = reduction_json(shape.over_group);
  json["registers"] = shape.registers;
  json["stages"] = shape.stages;
  json["stage_bytes"] = shape.stage_bytes;
  json["shared_bytes"] = shape.shared_bytes;
  json["dynamic_shared_bytes"] = shape.dynamic_shared_bytes;
  json["access_bytes"] = shape.access_bytes;
  json["max_rows_per_launch"] = shape.max_rows_per_launch;
}

double bytes_us(const RooflineDevice& device, const Work& work, std::int64_t rows) {
  return static_cast<double>(work.traffic.total_bytes(rows)) / device.gb_per_s / 1e3;
}

double flops_us(const RooflineDevice& device, const Work& work, std::int64_t rows) {
  if (device.f32_gflop_per_s <= 0) return 0;
  return static_cast<double>(work.flops_per_row) * static_cast<double>(rows) / device.f32_gflop_per_s / 1e3;
}

}  // namespace

Json plan_json(const Plan& plan) {
  Json json = {{"part_elements", plan.part_elements},
               {"parts_per_group", plan.parts_per_group},
               {"groups_per_row", plan.groups_per_row},
               {"parts_per_head", plan.parts_per_head},
               {"parts_per_seed", plan.parts_per_seed}};
  if (plan.target.kind == TargetKind::gpu)
    add_gpu(plan.gpu(), json);
  else
    add_host(plan.host(), json);
  return json;
}

Result<Work> count_work(const KernelSpec& spec) {
  HEADNORM_TRY(const program::Program program, build_program(spec));
  const program::RowCost cost = program::count_cost(program);
  return Work{.traffic = minimum_traffic(spec), .flops_per_row = cost.flops, .reductions_per_row = cost.reductions};
}

Json bytes_json(const Work& work, std::int64_t rows) {
  return {{"read_per_row", work.traffic.read_bytes_per_row},
          {"written_per_row", work.traffic.written_bytes_per_row},
          {"weights", work.traffic.weight_bytes},
          {"total", work.traffic.total_bytes(rows)}};
}

Json operations_json(const Work& work, std::int64_t rows) {
  const std::int64_t flops = work.flops_per_row * rows;
  return {{"flops_per_row", work.flops_per_row},
          {"reductions_per_row", work.reductions_per_row},
          {"flops", flops},
          {"flops_per_byte", static_cast<double>(flops) / static_cast<double>(work.traffic.total_bytes(rows))}};
}

double roofline_us(const RooflineDevice& device, const Work& work, std::int64_t rows) {
  return std::max(bytes_us(device, work, rows), flops_us(device, work, rows));
}

Json roofline_json(const std::vector<RooflineDevice>& devices, const Work& work, std::int64_t rows) {
  Json list = Json::array();
  for (const RooflineDevice& device : devices) {
    const bool memory = bytes_us(device, work, rows) >= flops_us(device, work, rows);
    list.push_back({{"device", device.name},
                    {"title", device.title},
                    {"gb_per_s", device.gb_per_s},
                    {"time_us", roofline_us(device, work, rows)},
                    {"bound", memory ? "memory" : "arithmetic"},
                    {"source", device.source}});
  }
  return list;
}

}  // namespace headnorm::cli
