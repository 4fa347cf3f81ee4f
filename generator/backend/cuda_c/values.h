// Values: how each value of a sweep program stands in the CUDA C of a plan: its name, and whether it is an array, a variable or
// only a part of another's expression.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "generator/program/program.h"

namespace headnorm::cuda_c {

enum class Form : std::uint8_t {
  none,      // not needed, or a store
  literal,   // a constant
  folded,    // stands in the expression of the one value that uses it
  single,    // a variable of the thread: of its head or seed head
  variable,  // of one element, in the loop over a vector
  vector,    // float name[kVector], of a chunk
  batch,     // one vector for each chunk of a batch: what is loaded before anything is computed
  kept,      // one vector for each chunk of the part, from sweep to sweep
};

struct ValueForm {
  Form form = Form::none;
  std::string name;
  int run = 0;                    // elements: roundings of whole vectors in the sweep before it
  bool in_place = false;          // takes the place of an argument that nothing else uses: the same variable or array
  bool is_overwritten = false;    // a value that is in place of it follows
  Dtype rounded_to = Dtype::f32;  // vectors: all values are of this dtype
};

// One for each instruction. `program` is in the form that the plan's residency asks for; `waiting` are values that wait in shared
// memory after the first sweep.
std::vector<ValueForm> find_forms(const Plan& plan, const program::Program& program, const std::vector<program::ValueId>& waiting);

std::size_t step_of(const program::Program& program, program::ValueId id);

}  // namespace headnorm::cuda_c
