#include "generator/backend/cuda_c/body.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/backend/cuda_c/sweep.h"

namespace headnorm::cuda_c {

using program::Op;
using program::Program;
using program::Step;
using program::ValueId;

namespace {

Result<std::vector<ValueId>> find_waiting(const Plan& plan, const Program& program) {
  if (plan.gpu_schedule().residency != Residency::shared || plan.gpu().stages > 0) return std::vector<ValueId>{};
  const std::vector<ValueId> waiting = program::values_to_keep(program, 0);
  std::int64_t bytes = 0;
  for (ValueId id : waiting) {
    const program::Instruction& instruction = program.instructions[static_cast<std::size_t>(id)];
    const bool is_rounded = instruction.op == Op::load || instruction.op == Op::round_to;
    bytes += waiting_bytes(plan, is_rounded ? instruction.dtype : Dtype::f32);
  }
  if (bytes != plan.gpu().dynamic_shared_bytes)
    return internal_error(
        fmt::format("values between the sweeps take {} bytes, the plan has {}", bytes, plan.gpu().dynamic_shared_bytes));
  return waiting;
}

class Body {
 public:
  Body(const Plan& plan, const Program& program, std::vector<ValueId> waiting)
      : plan_(plan), program_(program), sweeps_(plan, program, std::move(waiting), out_) {}

  std::string run() {
    if (launch() == LaunchForm::dependent) out_.line("follow_previous_kernel();");
    if (plan_.gpu().cluster > 1) out_.line("cluster_arrive();  // nothing is in the way of the first sums");
    threads();
    if (plan_.gpu_schedule().cache == CacheUse::stream)
      out_.line("const unsigned long long row_policy = evict_first(), weight_policy = evict_last();");
    if (has_whole_rows()) {
      out_.line("const int part = slot % kPartsPerTile;");
      weight_parts();
    }
    if (has_stages()) stages();
    if (is_persistent())
      persistent();
    else
      once();
    return out_.take();
  }

 private:
  bool has_whole_rows() const { return plan_.gpu().tiles_per_row == 1; }

  // Thread t of a block is lane t % kLanes of part t / kLanes; parts go through those of a group, groups of a row, rows.
  void threads() {
    if (plan_.gpu().cluster > 1) {
      out_.line("const int rank = blockIdx.x % kCluster;  // of this block in its cluster");
      out_.line("const int lane = rank * kLanes + threadIdx.x % kLanes;");
    } else {
      out_.line("const int lane = threadIdx.x % kLanes;");
    }
    if (!has_threads_past_slots(plan_)) {
      out_.line("const int slot = threadIdx.x / kLanes;  // of this thread's part among those of the block");
      return;
    }
    out_.line("// Threads past the last part repeat its work, for the sake of shuffles and barriers, and store nothing.");
    out_.line("const bool has_slot = threadIdx.x < kSlots * kLanes;");
    out_.line("const int slot = has_slot ? threadIdx.x / kLanes : kSlots - 1;  // of this thread's part among those of the block");
  }

  void weight_parts() {
    for (Operand operand : kOperands) {
      if (!has_operand(plan_.spec, operand) || is_row_operand(operand)) continue;
      std::string offset = "part * kPartElements";
      if (operand == Operand::gamma && plan_.spec.weight == WeightForm::head) offset = "part / kPartsPerHead";
      if (operand == Operand::gamma && plan_.spec.weight == WeightForm::shared) offset = "part % kPartsPerHead * kPartElements";
      out_.line(fmt::format("const {0}* const {1}_part = {1}_ptr + {2};", type_name(operand_dtype(plan_.spec, operand)),
                            to_text(operand), offset));
    }
  }

  void row_parts() {
    for (Operand operand : kOperands) {
      if (!has_operand(plan_.spec, operand) || !is_row_operand(operand)) continue;
      if (has_stages() && !is_output(operand)) continue;  // read from its room
      out_.line(fmt::format("{0}{1}* const {2}_part = {2}_ptr + row * {2}_stride + part * kPartElements;",
                            is_output(operand) ? "" : "const ", type_name(operand_dtype(plan_.spec, operand)), to_text(operand)));
    }
  }

  void once() {
    out_.line(fmt::format("const unsigned tile = blockIdx.x{};", per_cluster()));
    place_in_tile();
    if (launch() == LaunchForm::weights_ahead) {
      fetch_weights_of_tile();
      out_.line("follow_previous_kernel();");
    }
    if (has_stages()) {
      out_.line("copy_tile(tile, 0);");
      end_copy();
    }
    if (launch() != LaunchForm::weights_ahead) fetch_weights_of_tile();
    if (has_stages()) {
      out_.line(is_bulk() ? "wait_for_copy(0, 0);" : "wait_for_copy<0>();");
      rooms("0");
    }
    steps();
  }

  void persistent() {
    if (plan_.gpu().weights_stay) sweeps_.fetch_ahead(Sweeps::Ahead::all_sweeps);
    if (launch() == LaunchForm::weights_ahead) out_.line("follow_previous_kernel();");
    if (has_stages()) fill_stages();
    out_.open(fmt::format("for (unsigned tile = blockIdx.x{0}; first_row(tile) < rows; tile += gridDim.x{0}) {{", per_cluster()));
    if (has_stages()) {
      if (is_bulk()) out_.line("__syncthreads();  // all have read the last tile");
      out_.line("if (first_row(ahead) < rows) copy_tile(ahead, stage == 0 ? kStages - 1 : stage - 1);");
      end_copy();
    }
    place_in_tile();
    fetch_weights_of_tile();
    if (has_stages()) {
      out_.line(is_bulk() ? "wait_for_copy(stage, phase);" : "wait_for_copy<kStages - 1>();");
      rooms("stage");
    }
    steps();
    if (has_stages()) {
      out_.line("");
      out_.line(fmt::format("ahead = later_tile(ahead, gridDim.x{});", per_cluster()));
      if (is_bulk()) out_.line("if (stage == kStages - 1) phase ^= 1;");
      out_.line("stage = stage == kStages - 1 ? 0 : stage + 1;");
    }
    out_.close();
    if (plan_.gpu().cluster > 1) out_.line("cluster_wait();  // no block leaves while another may still write here");
  }

  void fetch_weights_of_tile() {
    if (plan_.gpu_schedule().weights == WeightLoad::before && !plan_.gpu().weights_stay)
      sweeps_.fetch_ahead(Sweeps::Ahead::later_sweeps);
  }

  void row_of_tile() {
    out_.line("const long long wanted_row = first_row(tile) + slot / kPartsPerTile;");
    out_.line("const long long row = wanted_row < rows ? wanted_row : rows - 1;");
    if (!has_whole_rows()) out_.line("const int part = tile % kTilesPerRow * kPartsPerTile + slot % kPartsPerTile;");
  }

  void place_in_tile() {
    row_of_tile();
    out_.line(
        fmt::format("const bool stores = {}wanted_row < rows;  // the last row stands in for those past it, and is stored once",
                    has_threads_past_slots(plan_) ? "has_slot && " : ""));
    if (!has_whole_rows()) weight_parts();
    row_parts();
    out_.line("");
  }

  void steps() {
    for (const Step& step : program_.steps) {
      const bool is_last = &step == &program_.steps.back();
      if (is_last) out_.open("if (stores) {  // only now may threads part: no shuffle or barrier of this tile follows");
      sweeps_.step(step);
      if (is_last)
        out_.close();
      else
        out_.line("");
    }
  }

  // What brings the rows of a tile to a stage.
  void stages() {
    if (is_bulk()) out_.line("open_stages();");
    const std::string rank = plan_.gpu().cluster > 1 ? "rank" : "0";
    const std::string policy = plan_.gpu_schedule().cache == CacheUse::stream ? ", row_policy" : "";
    out_.open("const auto copy_tile = [&](unsigned tile, int stage) {");
    row_of_tile();
    std::string bytes, copies;
    if (is_bulk()) out_.line("if (threadIdx.x % kLanes != 0) return;");
    for (Operand operand : staged_operands()) {
      const std::string type = type_name(operand_dtype(plan_.spec, operand));
      bytes += fmt::format("{}share_bytes<{}>({})", bytes.empty() ? "" : " + ", type, rank);
    }
    if (is_bulk()) out_.line(fmt::format("expect(stage, {});", bytes));
    for (Operand operand : staged_operands()) {
      const std::string type = type_name(operand_dtype(plan_.spec, operand));
      out_.line(
          fmt::format("copy_ahead<{0}{1}>(room_of<{0}>(stage, {2}), {3}_ptr + row * {3}_stride + part * kPartElements, {4}{5});",
                      type, is_bulk() ? "" : fmt::format(", {}", staged_access_bytes(plan_, operand)), stage_offset(plan_, operand),
                      to_text(operand), is_bulk() ? rank + ", stage" : "lane", policy));
    }
    out_.end("};");
  }

  void end_copy() {
    if (!is_bulk()) out_.line("end_copy();");
  }

  // All stages but one; that one is filled when the first tile is taken.
  void fill_stages() {
    out_.line(fmt::format("unsigned ahead = blockIdx.x{};  // the next tile to ask for", per_cluster()));
    out_.open("for (int stage = 0; stage < kStages - 1; ++stage) {");
    out_.line("if (first_row(ahead) < rows) copy_tile(ahead, stage);");
    end_copy();
    out_.line(fmt::format("ahead = later_tile(ahead, gridDim.x{});", per_cluster()));
    out_.close();
    out_.line(is_bulk() ? "int stage = 0, phase = 0;" : "int stage = 0;");
  }

  void rooms(const char* stage) {
    for (Operand operand : staged_operands()) {
      const std::string type = type_name(operand_dtype(plan_.spec, operand));
      out_.line(fmt::format("const {0}* const {1}_room = room_of<{0}>({2}, {3});", type, to_text(operand), stage,
                            stage_offset(plan_, operand)));
    }
    out_.line("");
  }

  std::vector<Operand> staged_operands() const {
    if (plan_.spec.has_residual()) return {Operand::x, Operand::residual};
    return {Operand::x};
  }
  bool has_stages() const { return plan_.gpu().stages > 0; }
  bool is_bulk() const { return plan_.gpu_schedule().staging == Staging::bulk; }
  bool is_persistent() const { return plan_.gpu_schedule().grid == GridForm::persistent; }
  LaunchForm launch() const { return plan_.gpu_schedule().launch; }
  const char* per_cluster() const { return plan_.gpu().cluster > 1 ? " / kCluster" : ""; }

  const Plan& plan_;
  const Program& program_;
  Writer out_;
  Sweeps sweeps_;
};

}  // namespace

Result<std::string> render_body(const Plan& plan, const Program& program) {
  HEADNORM_TRY(std::vector<ValueId> waiting, find_waiting(plan, program));
  return Body(plan, program, std::move(waiting)).run();
}

}  // namespace headnorm::cuda_c
