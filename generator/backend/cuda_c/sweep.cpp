#include "generator/backend/cuda_c/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "generator/backend/gpu/plan_terms.h"

namespace headnorm::cuda_c {

using program::Domain;
using program::Instruction;
using program::is_reduction;
using program::kNoValue;
using program::Op;
using program::Step;
using program::StepKind;
using program::ValueId;

namespace {

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

// A loop over batches of `count` chunks; one chunk is a batch by itself.
const char* turn_name(std::int64_t count) { return count == 1 ? "chunk" : "first"; }
std::string turns(const std::string& end, std::int64_t count) {
  if (count == 1) return fmt::format("for (int chunk = 0; chunk < {}; ++chunk) {{", end);
  return fmt::format("for (int first = 0; first < {}; first += {}) {{", end, count);
}

}  // namespace

int staged_access_bytes(const Plan& plan, Operand operand) { return std::min(operand_access_bytes(plan, operand), 16); }

std::int64_t waiting_bytes(const Plan& plan, Dtype dtype) {
  const GpuPlan& shape = plan.gpu();
  return shape.chunks * shape.vector_elements * shape.block_threads * size_bytes(dtype);
}

Sweeps::Sweeps(const Plan& plan, const program::Program& program, std::vector<ValueId> waiting, Writer& out)
    : plan_(plan), program_(program), waiting_(std::move(waiting)), forms_(find_forms(plan, program, waiting_)), out_(out) {}

bool Sweeps::is_element(ValueId id) const { return at(id).domain == Domain::element && !is_reduction(at(id).op); }
bool Sweeps::is_ahead(ValueId id) const { return std::find(ahead_.begin(), ahead_.end(), id) != ahead_.end(); }

std::string Sweeps::access_of(ValueId id) const {
  return fmt::format("{}, {}", type_name(at(id).dtype), operand_access_bytes(plan_, at(id).operand));
}

// With cache=stream: rows get theirs the last time that they are read, and when they are stored.
Sweeps::Hint Sweeps::hint_of(ValueId id) const {
  if (plan_.gpu_schedule().cache == CacheUse::plain) return {"", ""};
  if (!is_row_operand(at(id).operand)) return {"_weight", ", weight_policy"};
  for (ValueId later = id + 1; later < static_cast<ValueId>(program_.instructions.size()); ++later) {
    if (at(later).op == Op::load && at(later).operand == at(id).operand && form(later).form != Form::none) return {"", ""};
  }
  return {"_row", ", row_policy"};
}

std::string Sweeps::vector_of(ValueId id) const {
  const ValueForm& value = form(id);
  if (value.form == Form::batch && batch_.count > 1) return value.name + "[c]";
  if (value.form == Form::kept && plan_.gpu().chunks > 1) return fmt::format("{}[{}]", value.name, chunk_);
  return value.name;
}

std::string Sweeps::text_of(ValueId id, Of of) const {
  switch (form(id).form) {
    case Form::literal:
      return literal(at(id).immediates[0]);
    case Form::folded:
      return operation_of(id, of);
    case Form::none:
    case Form::single:
      return form(id).name;
    case Form::variable:
      return form(id).name + (of == Of::element ? "" : of == Of::first ? ".x" : ".y");
    case Form::vector:
    case Form::batch:
    case Form::kept:
      return vector_of(id) + (of == Of::second ? "[i + 1]" : "[i]");
  }
  return "";
}

std::string Sweeps::operation_of(ValueId id, Of of) const {
  return render_operation(at(id), [&](ValueId argument) { return text_of(argument, of); });
}

std::string Sweeps::pair_text_of(ValueId id) const {
  switch (form(id).form) {
    case Form::literal:
    case Form::none:
    case Form::single:
      return fmt::format("both({})", text_of(id));
    case Form::folded:
      return pair_operation_of(id);
    case Form::variable:
      return form(id).name;
    case Form::vector:
    case Form::batch:
    case Form::kept:
      return fmt::format("pair({}, i)", vector_of(id));
  }
  return "";
}

std::string Sweeps::pair_operation_of(ValueId id) const {
  if (gpu::is_packed(plan_, program_, id))
    return render_pair_operation(at(id), [this](ValueId pair) { return pair_text_of(pair); });
  return fmt::format("float2{{{}, {}}}", operation_of(id, Of::first), operation_of(id, Of::second));
}

Formula Sweeps::formula_of(ValueId id) const {
  if (form(id).form != Form::literal && form(id).form != Form::folded) return {form(id).name};
  return render_formula(at(id), [this](ValueId argument) { return formula_of(argument); });
}

std::string Sweeps::comment_of(ValueId id) const {
  const Formula formula = render_formula(at(id), [this](ValueId argument) { return formula_of(argument); });
  return fmt::format("{} = {}", form(id).name, formula.text);
}

void Sweeps::fetch_ahead(Ahead ahead) {
  for (ValueId id = 0; id < static_cast<ValueId>(program_.instructions.size()); ++id) {
    if (form(id).form == Form::none || at(id).op != Op::load || is_row_operand(at(id).operand)) continue;
    if (id < program_.steps[0].end && ahead == Ahead::later_sweeps) continue;  // read beside u
    if (ahead_.empty()) out_.line("// Weights of all chunks, ahead of the sums that they wait for.");
    ahead_.push_back(id);
    const std::string operand = to_text(at(id).operand), &name = form(id).name;
    if (!is_element(id)) {
      out_.line(fmt::format("const float {} = Element<{}>::widen(*{}_part);", name, type_name(at(id).dtype), operand));
      continue;
    }
    const std::int64_t count = plan_.gpu().chunks;
    out_.line(fmt::format("Fetched<{}> {}_ahead{};", access_of(id), name, count > 1 ? "[kChunks]" : ""));
    if (count > 1) out_.directive("#pragma unroll");
    out_.line(fmt::format("{}fetch{}<{}>({}_part, lane, {}, {}_ahead{}{});", count > 1 ? "for (int c = 0; c < kChunks; ++c) " : "",
                          hint_of(id).function, access_of(id), operand, count > 1 ? "c" : "0", name, count > 1 ? "[c]" : "",
                          hint_of(id).argument));
  }
  if (!ahead_.empty()) out_.line("");
}

// What is one for all elements of the thread's head or seed head.
void Sweeps::singles(const Step& step) {
  for (ValueId id = step.begin; id < step.end; ++id) {
    const ValueForm& value = form(id);
    if (value.form != Form::single || is_reduction(at(id).op) || is_ahead(id)) continue;
    const std::string declaration = value.in_place ? "" : value.is_overwritten ? "float " : "const float ";
    if (at(id).op == Op::load) {
      out_.line(fmt::format("{}{} = Element<{}>::widen(*{}_part);", declaration, value.name, type_name(at(id).dtype),
                            to_text(at(id).operand)));
      continue;
    }
    const std::string text = render_operation(at(id), [this](ValueId argument) { return text_of(argument); });
    out_.statement(fmt::format("{}{} = {};", declaration, value.name, text), comment_of(id));
  }
}

void Sweeps::declare_sums(const Step& step) {
  std::vector<std::string> kept, sums;
  for (ValueId id = step.begin; id < step.end; ++id) {
    const ValueForm& value = form(id);
    if (value.form == Form::kept && !value.in_place)
      kept.push_back(value.name + (plan_.gpu().chunks > 1 ? "[kChunks][kVector]" : "[kVector]"));
    if (is_reduction(at(id).op) && value.form != Form::none) sums.push_back(value.name + " = 0.0f");
  }
  if (!kept.empty()) out_.line(fmt::format("float {};", fmt::join(kept, ", ")));
  if (!sums.empty()) out_.line(fmt::format("float {};", fmt::join(sums, ", ")));
}

std::string Sweeps::chunk_of(const Batch& batch) {
  if (batch.count == 1) return batch.first.empty() ? "0" : batch.first;
  return batch.first.empty() ? "c" : batch.first + " + c";
}

void Sweeps::open_chunks(const Batch& batch) {
  if (batch.count > 1) {
    out_.directive("#pragma unroll");
    out_.open(fmt::format("for (int c = 0; c < {}; ++c) {{", batch.count));
    if (batch.may_exceed) out_.line(fmt::format("if ({} >= kChunks) continue;", chunk_));
  }
  if (batch.is_whole && !plan_.gpu().exact) out_.line(fmt::format("__builtin_assume({} < kFullChunks);", chunk_));
}

void Sweeps::close_chunks(const Batch& batch) {
  if (batch.count > 1) out_.close();
}

// Bytes from the start of the waiting values to number `index` of them.
std::int64_t Sweeps::waiting_begin(std::size_t index) const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < index; ++i) bytes += waiting_bytes(plan_, form(waiting_[i]).rounded_to);
  return bytes;
}

bool Sweeps::is_mentioned(const Step& step, ValueId id) const {
  for (ValueId user = step.begin; user < step.end; ++user) {
    const auto& arguments = at(user).arguments;
    if (form(user).form == Form::none && at(user).op != Op::store) continue;
    if (std::find(arguments.begin(), arguments.end(), id) != arguments.end()) return true;
  }
  return false;
}

void Sweeps::declare_batch(const Step& step, const Batch& batch) {
  std::vector<std::string> arrays;
  const auto declare = [&](ValueId id) {
    arrays.push_back(form(id).name + (batch.count > 1 ? fmt::format("[{}][kVector]", batch.count) : "[kVector]"));
  };
  if (!is_first(step)) {
    for (ValueId id : waiting_) {
      if (is_mentioned(step, id)) declare(id);
    }
  }
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (form(id).form == Form::batch && !form(id).in_place) declare(id);
  }
  if (!arrays.empty()) out_.line(fmt::format("float {};", fmt::join(arrays, ", ")));
}

std::vector<std::string> Sweeps::load_statements(const Step& step) const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < waiting_.size() && !is_first(step); ++i) {
    if (is_mentioned(step, waiting_[i]))
      lines.push_back(fmt::format("recall<{}>({}, {}, {});", type_name(form(waiting_[i]).rounded_to), waiting_begin(i), chunk_,
                                  vector_of(waiting_[i])));
  }
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (at(id).op != Op::load || !is_element(id) || form(id).form == Form::none) continue;
    const std::string to = vector_of(id);
    const std::string chunk = plan_.gpu().chunks > 1 ? fmt::format("[{}]", chunk_) : "";
    if (plan_.gpu().stages > 0 && is_row_operand(at(id).operand))
      lines.push_back(fmt::format("load_staged<{}, {}>({}_room, lane, {}, {});", type_name(at(id).dtype),
                                  staged_access_bytes(plan_, at(id).operand), to_text(at(id).operand), chunk_, to));
    else if (is_ahead(id))
      lines.push_back(fmt::format("unpack<{}>({}_ahead{}, {});", access_of(id), form(id).name, chunk, to));
    else
      lines.push_back(fmt::format("load{}<{}>({}_part, lane, {}, {}{});", hint_of(id).function, access_of(id),
                                  to_text(at(id).operand), chunk_, to, hint_of(id).argument));
  }
  return lines;
}

void Sweeps::batch(const Step& step, const Batch& batch) {
  batch_ = batch;
  chunk_ = chunk_of(batch);
  declare_batch(step, batch);
  const std::vector<std::string> loads = load_statements(step);
  if (!loads.empty()) {
    open_chunks(batch);
    for (const std::string& line : loads) out_.line(line);
    close_chunks(batch);
  }
  open_chunks(batch);
  compute_chunk(step);
  for (std::size_t i = 0; i < waiting_.size() && is_first(step); ++i)
    out_.line(fmt::format("keep<{}>({}, {}, {});", type_name(form(waiting_[i]).rounded_to), waiting_begin(i), chunk_,
                          vector_of(waiting_[i])));
  store_chunk(step);
  close_chunks(batch);
}

void Sweeps::compute_chunk(const Step& step) {
  std::vector<std::string> arrays;
  int runs = 0;
  for (ValueId id = step.begin; id < step.end; ++id) {
    runs = std::max(runs, form(id).run);
    if (form(id).form == Form::vector && !form(id).in_place) arrays.push_back(form(id).name + "[kVector]");
  }
  if (!arrays.empty()) out_.line(fmt::format("float {};", fmt::join(arrays, ", ")));
  for (int run = 0; run <= runs; ++run) {
    if (run > 0) round_vector(step, run);
    run_of(step, run);
  }
}

// Run number `run` begins with a rounding.
void Sweeps::round_vector(const Step& step, int run) {
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (at(id).op != Op::round_to || form(id).run != run || form(id).form == Form::none) continue;
    if (!form(id).in_place) {
      out_.directive("#pragma unroll");
      out_.line(fmt::format("for (int i = 0; i < kVector; ++i) {} = {};", text_of(id), text_of(at(id).arguments[0])));
    }
    out_.line(fmt::format("round_to<{}>({});", type_name(at(id).dtype), vector_of(id)));
    return;
  }
}

void Sweeps::run_of(const Step& step, int run) {
  std::vector<ValueId> ids;
  for (ValueId id = step.begin; id < step.end; ++id) {
    const ValueForm& value = form(id);
    if (value.run != run || value.form == Form::none || value.form == Form::literal || value.form == Form::folded) continue;
    const bool is_computed = is_element(id) && at(id).op != Op::load && at(id).op != Op::store && at(id).op != Op::round_to;
    if (is_computed || is_reduction(at(id).op)) ids.push_back(id);
  }
  if (ids.empty()) return;
  in_pairs_ = std::any_of(ids.begin(), ids.end(), [this](ValueId id) { return gpu::is_packed(plan_, program_, id); });
  out_.directive("#pragma unroll");
  out_.open(in_pairs_ ? "for (int i = 0; i < kVector; i += 2) {" : "for (int i = 0; i < kVector; ++i) {");
  for (ValueId id : ids) {
    if (!is_reduction(at(id).op)) {
      element_statement(id);
    } else if (in_pairs_) {
      accumulate(id, Of::first);
      accumulate(id, Of::second);
    } else {
      accumulate(id, Of::element);
    }
  }
  out_.close();
}

void Sweeps::element_statement(ValueId id) {
  const ValueForm& value = form(id);
  const std::string text = in_pairs_ ? pair_operation_of(id) : operation_of(id);
  if (in_pairs_ && value.form != Form::variable)
    return out_.statement(fmt::format("set_pair({}, i, {});", vector_of(id), text), comment_of(id));
  const bool is_declared = value.form == Form::variable && !value.in_place;
  const std::string type = !is_declared ? "" : in_pairs_ ? "float2 " : "float ";
  out_.statement(fmt::format("{}{}{} = {};", is_declared && !value.is_overwritten ? "const " : "", type, text_of(id), text),
                 comment_of(id));
}

void Sweeps::accumulate(ValueId id, Of of) {
  const std::string& name = form(id).name;
  const char* const element = of == Of::second ? "i + 1" : "i";
  const std::string condition =
      batch_.is_whole || plan_.gpu().exact ? "" : fmt::format("if (inside(lane, {}, {})) ", chunk_, element);
  const Formula formula = render_formula(at(id), [this](ValueId argument) { return formula_of(argument); });
  if (at(id).op == Op::reduce_max) {
    out_.statement(fmt::format("{}{} = fmaxf({}, {});", condition, name, name, text_of(at(id).arguments[0], of)), "");
    return;
  }
  out_.statement(fmt::format("{}{} = __fmaf_rn({}, {}, {});", condition, name, text_of(at(id).arguments[0], of),
                             text_of(at(id).arguments[1], of), name),
                 of == Of::second ? "" : fmt::format("{} += {}", name, formula.text));
}

void Sweeps::store_chunk(const Step& step) {
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (at(id).op != Op::store) continue;
    const ValueId value = at(id).arguments[0];
    const bool is_rounded = at(id).dtype != Dtype::f32 && form(value).rounded_to == at(id).dtype;
    out_.line(fmt::format("store<{}{}>({}_part, lane, {}, {}{});", access_of(id), is_rounded ? ", Rounded::yes" : "",
                          to_text(at(id).operand), chunk_, vector_of(value), hint_of(id).argument));
  }
}

void Sweeps::chunks(const Step& step) {
  const std::int64_t all = plan_.gpu().chunks, count = plan_.gpu().unroll;
  if (count >= all) return batch(step, {.count = all, .first = ""});
  out_.directive("#pragma unroll");
  out_.open(turns("kChunks", count));
  batch(step, {.count = count, .first = turn_name(count), .may_exceed = all % count != 0});
  out_.close();
}

// Turns of whole batches, and what is left.
void Sweeps::loop(const Step& step) {
  const std::int64_t all = plan_.gpu().chunks, count = plan_.gpu().unroll;
  const std::int64_t full = plan_.part_elements / plan_.gpu().chunk_elements();
  const std::int64_t turned = full / count * count;
  out_.directive("#pragma unroll 1");
  out_.open(turns(fmt::to_string(turned), count));
  batch(step, {.count = count, .first = turn_name(count), .is_whole = true});
  out_.close();
  if (turned == all) return;
  out_.open("{");
  batch(step, {.count = all - turned, .first = fmt::to_string(turned)});
  out_.close();
}

void Sweeps::title(const Step& step) {
  std::vector<std::string> found;
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (is_reduction(at(id).op) && form(id).form != Form::none) found.push_back(form(id).name);
    if (at(id).op == Op::store) found.push_back(to_text(at(id).operand));
  }
  const auto number = (&step - program_.steps.data()) / 2 + 1;
  out_.line(fmt::format("// Sweep {} of {}: {}.", number, program_.steps.size() / 2 + 1, list(found)));
}

void Sweeps::step(const Step& step) {
  if (step.kind == StepKind::scalars) {
    singles(step);
    return;
  }
  title(step);
  singles(step);
  declare_sums(step);
  if (is_looped())
    loop(step);
  else
    chunks(step);
  finish_sums(step);
}

bool has_threads_past_slots(const Plan& plan) {
  return plan.gpu().groups_per_block() * plan.parts_per_group * plan.gpu().lanes != plan.gpu().block_threads;
}

}  // namespace headnorm::cuda_c
