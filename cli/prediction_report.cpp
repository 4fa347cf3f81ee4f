#include "cli/prediction_report.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/table.h"
#include "core/counted.h"

namespace headnorm::cli {
namespace {

Json instructions_json(const Prediction& p) {
  const double per_block = p.counts.blocks > 0 ? p.counts.warp_instructions / static_cast<double>(p.counts.blocks) : 0;
  return {{"of_warps", std::round(p.counts.warp_instructions)}, {"per_block", std::round(per_block)}};
}

// Figures that nobody measured decide the result: how many of them.
int assumed_figures(const GpuModel& model) {
  int count = 0;
  for (const FigureValue& figure : model.figures) count += figure.confidence == Confidence::assumed;
  return count;
}

}  // namespace

Json prediction_json(const Prediction& p, const GpuModel& model) {
  return {{"device", model.slug},
          {"time_us", number_json(p.time_us)},
          {"bound", to_text(p.bound)},
          {"parts_us",
           {{"launch", p.launch_us},
            {"memory", p.memory_us},
            {"cache", p.cache_us},
            {"issue", p.issue_us},
            {"latency", p.latency_us},
            {"tile", p.tile_us}}},
          {"bytes", {{"memory", p.memory_bytes}, {"cache", p.cache_bytes}, {"least", p.counts.footprint_bytes}}},
          {"instructions", instructions_json(p)},
          {"occupancy",
           {{"blocks", p.occupancy.blocks},
            {"threads", p.occupancy.threads},
            {"share", p.occupancy.share},
            {"limit", to_text(p.occupancy.limit)},
            {"registers", p.occupancy.registers},
            {"registers_from", to_text(p.occupancy.source)}}},
          {"in_flight_bytes", p.in_flight_bytes},
          {"needed_bytes", p.needed_bytes},
          {"blocks", p.counts.blocks},
          {"waves", p.waves},
          {"assumed_figures", assumed_figures(model)}};
}

std::string prediction_text(const Json& p) {
  const Json &parts = p["parts_us"], &occupancy = p["occupancy"], &bytes = p["bytes"];
  const auto number = [](const Json& json) { return json.get<double>(); };
  std::string text = fmt::format("\npredicted for {} by the cost model (not a measurement)\n", p["device"].get<std::string>());
  if (!p["time_us"].is_number()) return text + "  not one block of the kernel fits a multiprocessor\n";
  return text +
         render_facts(
             {{"  time", fmt::format("{:.2f} us, bound by {}", number(p["time_us"]), p["bound"].get<std::string>())},
              {"  of which",
               fmt::format("launch {:.2f}, memory {:.2f}, cache {:.2f}, issue {:.2f}, latency {:.2f} us (they overlap)",
                           number(parts["launch"]), number(parts["memory"]), number(parts["cache"]), number(parts["issue"]),
                           number(parts["latency"]))},
              {"  bytes", fmt::format("{:.0f} from and to memory ({} at least), {:.0f} through the cache", number(bytes["memory"]),
                                      bytes["least"].dump(), number(bytes["cache"]))},
              {"  instructions", fmt::format("{:.0f} of warps", number(p["instructions"]["of_warps"]))},
              {"  occupancy",
               fmt::format("{}, {} ({:.0f} %), limited by {}", counted(occupancy["blocks"].get<std::int64_t>(), "block"),
                           counted(occupancy["threads"].get<std::int64_t>(), "thread"), 100 * number(occupancy["share"]),
                           occupancy["limit"].get<std::string>())},
              {"  registers", fmt::format("{} a thread ({})", occupancy["registers"].dump(),
                                          occupancy["registers_from"] == "ptxas" ? "as ptxas gives them" : "the plan's estimate")},
              {"  in flight", fmt::format("{:.0f} bytes a multiprocessor, {:.0f} keep the memory busy",
                                          number(p["in_flight_bytes"]), number(p["needed_bytes"]))},
              {"  waves", fmt::format("{:.2f} of {}, a tile takes {:.2f} us", number(p["waves"]),
                                      counted(p["blocks"].get<std::int64_t>(), "block"), number(parts["tile"]))},
              {"  figures",
               fmt::format("{} of the model's {} are assumed; docs/cost-model.md", p["assumed_figures"].dump(), kFigureCount)}});
}

}  // namespace headnorm::cli
