// Renders the steps of a sweep program for the thread of a tile.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "generator/backend/cuda_c/expression.h"
#include "generator/backend/cuda_c/values.h"
#include "generator/backend/cuda_c/writer.h"
#include "generator/program/program.h"

namespace headnorm::cuda_c {

class Sweeps {
 public:
  // `waiting`: values that wait in shared memory after the first sweep.
  Sweeps(const Plan& plan, const program::Program& program, std::vector<program::ValueId> waiting, Writer& out);

  // Weights read ahead of the sweeps that use them: `of_all_sweeps`, or of those that follow the first reduction.
  enum class Ahead : std::uint8_t { later_sweeps, all_sweeps };
  void fetch_ahead(Ahead ahead);
  void step(const program::Step& step);

 private:
  // Chunks that are loaded before anything of them is computed: `count` of them, from the one named `first` ("": the part's first).
  struct Batch {
    std::int64_t count = 1;
    std::string first;
    bool may_exceed = false;  // some of them may be past the part's last
    bool is_whole = false;    // all of them are within the part
  };

  struct Hint {
    const char *function, *argument;  // "_row", ", row_policy"
  };
  Hint hint_of(program::ValueId id) const;  // of a load or store

  // Which element a text is of: the one of a loop over elements, or a half of the one of a loop over pairs.
  enum class Of : std::uint8_t { element, first, second };

  bool is_looped() const { return plan_.gpu_schedule().residency != Residency::registers; }
  bool is_first(const program::Step& step) const { return step.begin == 0; }
  const program::Instruction& at(program::ValueId id) const { return program_.instructions[static_cast<std::size_t>(id)]; }
  const ValueForm& form(program::ValueId id) const { return forms_[static_cast<std::size_t>(id)]; }
  bool is_element(program::ValueId id) const;
  bool is_ahead(program::ValueId id) const;

  void title(const program::Step& step);
  void singles(const program::Step& step);
  void declare_sums(const program::Step& step);
  void chunks(const program::Step& step);
  void loop(const program::Step& step);
  void batch(const program::Step& step, const Batch& batch);
  void declare_batch(const program::Step& step, const Batch& batch);
  std::vector<std::string> load_statements(const program::Step& step) const;
  void compute_chunk(const program::Step& step);
  void round_vector(const program::Step& step, int run);
  void run_of(const program::Step& step, int run);
  void element_statement(program::ValueId id);
  void accumulate(program::ValueId id, Of of);
  void store_chunk(const program::Step& step);
  void finish_sums(const program::Step& step);
  void share_in_cluster(const program::Step& step, const std::vector<program::ValueId>& sums);
  bool has_later_sums(const program::Step& step) const;
  void share_sums(const std::vector<program::ValueId>& sums);

  static std::string chunk_of(const Batch& batch);
  void open_chunks(const Batch& batch);  // the loop over them, if there are several
  void close_chunks(const Batch& batch);
  bool is_mentioned(const program::Step& step, program::ValueId id) const;
  std::int64_t waiting_begin(std::size_t index) const;
  std::string vector_of(program::ValueId id) const;  // the array of a chunk
  std::string text_of(program::ValueId id, Of of = Of::element) const;
  std::string operation_of(program::ValueId id, Of of = Of::element) const;
  std::string pair_text_of(program::ValueId id) const;
  std::string pair_operation_of(program::ValueId id) const;
  Formula formula_of(program::ValueId id) const;
  std::string comment_of(program::ValueId id) const;
  std::string access_of(program::ValueId id) const;  // "bf16, 16"

  const Plan& plan_;
  const program::Program& program_;
  std::vector<program::ValueId> waiting_;
  std::vector<ValueForm> forms_;
  Writer& out_;
  std::vector<program::ValueId> ahead_;
  Batch batch_;            // being rendered
  bool in_pairs_ = false;  // the loop over a vector being rendered takes two elements at a time
  std::string chunk_;      // number of the chunk being rendered: "0", "c", "first + c"
};

// Whether a block has threads for which the tile has no part.
bool has_threads_past_slots(const Plan& plan);
// Of an access to a staged operand in shared memory.
int staged_access_bytes(const Plan& plan, Operand operand);
// Bytes of shared memory that a value of all threads takes between the sweeps.
std::int64_t waiting_bytes(const Plan& plan, Dtype dtype);

}  // namespace headnorm::cuda_c
