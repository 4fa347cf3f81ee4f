#include "generator/backend/cuda_c/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "generator/backend/cuda_c/sweep.h"

namespace headnorm::cuda_c {

using program::Op;
using program::Program;
using program::Step;
using program::ValueId;

namespace {

// Values of the first sweep, per element, that later ones use: u.
std::vector<ValueId> kept_of_first_sweep(const Program& program) {
  std::vector<ValueId> kept;
  for (std::size_t sweep = 2; sweep < program.steps.size(); sweep += 2) {
    for (ValueId id : program::kept_values(program, sweep)) {
      if (id < program.steps[0].end && std::find(kept.begin(), kept.end(), id) == kept.end()) kept.push_back(id);
    }
  }
  return kept;
}

Result<std::vector<ValueId>> find_waiting(const Plan& plan, const Program& program) {
  if (plan.gpu_schedule().residency != Residency::shared) return std::vector<ValueId>{};
  const std::vector<ValueId> waiting = kept_of_first_sweep(program);
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
    threads();
    const bool is_persistent = plan_.gpu_schedule().grid == GridForm::persistent;
    if (has_whole_rows()) {
      out_.line("const int part = slot % kPartsPerTile;");
      weight_parts();
    }
    if (plan_.gpu().weights_stay) sweeps_.fetch_ahead(Sweeps::Ahead::all_sweeps);
    if (is_persistent)
      out_.open("for (unsigned tile = blockIdx.x; first_row(tile) < rows; tile += gridDim.x) {");
    else
      out_.line("const unsigned tile = blockIdx.x;");
    tile();
    if (is_persistent) out_.close();
    return out_.take();
  }

 private:
  bool has_whole_rows() const { return plan_.gpu().tiles_per_row == 1; }

  // Thread t of a block is lane t % kLanes of part t / kLanes; parts go through those of a group, groups of a row, rows.
  void threads() {
    out_.line("const int lane = threadIdx.x % kLanes;");
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
      out_.line(fmt::format("{0}{1}* const {2}_part = {2}_ptr + row * {2}_stride + part * kPartElements;",
                            is_output(operand) ? "" : "const ", type_name(operand_dtype(plan_.spec, operand)), to_text(operand)));
    }
  }

  void tile() {
    out_.line("const long long wanted_row = first_row(tile) + slot / kPartsPerTile;");
    out_.line(fmt::format("const bool stores = {}wanted_row < rows;  // past the last row, it is computed again and not stored",
                          has_threads_past_slots(plan_) ? "has_slot && " : ""));
    out_.line("const long long row = wanted_row < rows ? wanted_row : rows - 1;");
    if (!has_whole_rows()) {
      out_.line("const int part = tile % kTilesPerRow * kPartsPerTile + slot % kPartsPerTile;");
      weight_parts();
    }
    row_parts();
    out_.line("");
    if (plan_.gpu_schedule().weights == WeightLoad::before && !plan_.gpu().weights_stay)
      sweeps_.fetch_ahead(Sweeps::Ahead::later_sweeps);
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

  const Plan& plan_;
  const Program& program_;
  Writer out_;
  Sweeps sweeps_;
};

}  // namespace

int granule_elements(const Plan& plan) {
  return static_cast<int>(std::gcd(plan.part_elements, static_cast<std::int64_t>(plan.gpu().vector_elements)));
}

Program form_of(const Plan& plan, const Program& program) {
  switch (plan.gpu_schedule().residency) {
    case Residency::registers:
      break;
    case Residency::shared:
      return program::rematerialise(program, kept_of_first_sweep(program));
    case Residency::reload:
      return program::rematerialise(program);
  }
  return program;
}

Result<std::string> render_body(const Plan& plan, const Program& program) {
  HEADNORM_TRY(std::vector<ValueId> waiting, find_waiting(plan, program));
  return Body(plan, program, std::move(waiting)).run();
}

}  // namespace headnorm::cuda_c
