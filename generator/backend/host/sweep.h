// SweepCode: emits one sweep of a program over one part, or over a tile of several, and the scalar steps between sweeps.
//
// A form (forms.cpp) decides the order in time of the sweeps of several parts; here is what one line of one sweep does.
#pragma once

#include <map>
#include <optional>

#include "generator/backend/host/tile.h"
#include "generator/program/program.h"

namespace headnorm::host {

using program::ValueId;

// Values of a program that are one per head or seed head (scalars), or vectors of them in a vectorised scalar step. In a sweep over
// a tile they are vectors with a lane for each part.
using ScalarValues = std::map<ValueId, llvm::Value*>;

// Values per element that stay in registers between sweeps: by line, then by value.
using KeptValues = std::vector<std::map<ValueId, LineValue>>;

// Accumulators of one set of parts that share the lanes of vectors in one way.
struct TileSums {
  Values accumulators;
  std::size_t terms = 0;
};

// Partial sums of the reductions of one sweep.
struct PartialSums {
  std::map<ValueId, Values> lanes;                               // over one part: `accumulators` vectors of full width each
  std::map<ValueId, Values> leftover;                            // of narrower last lines
  std::map<ValueId, std::map<std::vector<int>, TileSums>> tile;  // over a tile: by the parts of the lanes
};

// f32 values in memory that stand for parts: one value for each run of `parts` parts.
struct ScalarPlace {
  llvm::Value* address = nullptr;
  std::int64_t parts = 1;
};

// One sweep over one part or tile, while it is being emitted.
struct SweepJob {
  std::size_t step = 0;                            // of program.steps
  int parts = 1;                                   // of the tile
  std::array<llvm::Value*, kOperandCount> base{};  // address of the part's first element (gamma per head: of its scalar)
  ScalarValues scalars{};                          // of earlier steps
  std::map<ValueId, ScalarPlace> places{};         // where those stand, if they come from memory
  const KeptValues* kept = nullptr;                // values of earlier sweeps, or null where the sweep makes its own
  KeptValues* keep = nullptr;                      // where to leave the program's kept values, or null
  bool prefetch = false;

  PartialSums sums{};
  std::map<ValueId, std::map<std::pair<int, int>, llvm::Value*>> splats{};  // scalars as vectors, by part and width
};

class SweepCode {
 public:
  SweepCode(FunctionBuilder& builder, const program::Program& program);

  const program::Program& program() const { return program_; }

  // Address of the first element of every operand the spec has: rows by `row`, weights by `part` of the row, the tile's first.
  void set_bases(SweepJob& job, llvm::Value* row, llvm::Value* part);

  // Emits the jobs side by side: `chunk_lines` lines of each in turn. Then job.sums are complete.
  void emit(const std::vector<SweepJob*>& jobs, int chunk_lines);

  // Scalars of earlier steps that stand in memory.
  void set_scalars(SweepJob& job, const std::map<ValueId, ScalarPlace>& places);

  // The reductions of a job that emit() has done, as scalars (of a tile: as vectors, a lane for each part).
  ScalarValues finish_sums(SweepJob& job);

  // Two partial results of the reduction `id` as one.
  llvm::Value* combine(ValueId id, llvm::Value* a, llvm::Value* b);

  // Evaluates the instructions [begin, end) of `domains` that are not per element, adding to `values`. Widths follow the arguments.
  enum class Which : std::uint8_t { all, coarse, fine };
  void evaluate_scalars(const program::Step& step, Which which, ScalarValues& values);

  // Whether `id` is one value for a whole group of several parts.
  bool is_coarse(ValueId id) const;

  std::vector<ValueId> reductions(std::size_t step) const;
  // Scalars of earlier steps that `step` uses.
  std::vector<ValueId> scalars_used(std::size_t step) const;

 private:
  const program::Instruction& at(ValueId id) const { return program_.instructions[static_cast<std::size_t>(id)]; }
  std::vector<Line> lines_of(std::int64_t begin, std::int64_t end) const;
  void begin(SweepJob& job);
  void emit_line(SweepJob& job, const Line& line, std::int64_t line_index);
  void emit_prefetch(SweepJob& job, const Line& line, std::int64_t line_index);
  LineValue argument(SweepJob& job, const std::map<ValueId, LineValue>& values, ValueId id, const Line& line);
  void emit_loop(const std::vector<SweepJob*>& jobs, int chunk_lines);
  llvm::Value* arithmetic(const program::Instruction& instruction, const Values& arguments);
  LineValue load_element(SweepJob& job, const program::Instruction& instruction, const Line& line);
  llvm::Value* load_per_head(SweepJob& job, const program::Instruction& instruction);
  llvm::Value* splat_of_part(SweepJob& job, ValueId id, int part, int lanes);
  llvm::Value* tile_argument(SweepJob& job, ValueId id, const Line& line, int vector);
  void accumulate_tile(SweepJob& job, ValueId id, llvm::Value* a, llvm::Value* b, std::vector<int> parts);
  void accumulate(SweepJob& job, ValueId id, const std::map<ValueId, LineValue>& values, const Line& line, std::int64_t line_index);

  FunctionBuilder& b_;
  const program::Program& program_;
  const Plan& plan_;
  const HostPlan& shape_;
  LineAccess access_;
  std::vector<llvm::Value*> pointers_, strides_;
};

}  // namespace headnorm::host
