#include "generator/backend/cuda_c/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "generator/backend/gpu/plan_terms.h"

namespace headnorm::cuda_c {

using program::Domain;
using program::Instruction;
using program::is_reduction;
using program::kNoValue;
using program::Op;
using program::Program;
using program::StepKind;
using program::ValueId;

namespace {

// What the text around a sweep's statements calls its own.
constexpr const char* kReserved[] = {"lane",          "slot",  "has_slot", "tile",  "part",      "row",  "rows",
                                     "stores",        "first", "chunk",    "c",     "i",         "rank", "row_policy",
                                     "weight_policy", "stage", "phase",    "ahead", "copy_tile", "pair", "both"};

class Finder {
 public:
  Finder(const Plan& plan, const Program& program, const std::vector<ValueId>& waiting)
      : plan_(plan), program_(program), waiting_(waiting), forms_(size()), users_(size()), mentions_(size()) {}

  std::vector<ValueForm> run() {
    find_uses();
    count_runs();
    for (std::size_t id = size(); id-- > 0;) find_form(static_cast<ValueId>(id));
    for (std::size_t id = 0; id < size(); ++id) settle(static_cast<ValueId>(id));
    for (std::size_t id = 0; id < size(); ++id) find_name(static_cast<ValueId>(id));
    return std::move(forms_);
  }

 private:
  std::size_t size() const { return program_.instructions.size(); }
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  const Instruction& at(ValueId id) const { return program_.instructions[index(id)]; }
  ValueForm& form(ValueId id) { return forms_[index(id)]; }
  bool is_looped() const { return plan_.gpu_schedule().residency != Residency::registers; }
  bool is_element(ValueId id) const { return at(id).domain == Domain::element && !is_reduction(at(id).op); }
  bool waits(ValueId id) const { return std::find(waiting_.begin(), waiting_.end(), id) != waiting_.end(); }

  // Only what a store needs counts as used.
  void find_uses() {
    std::vector<bool> live(size());
    for (std::size_t id = size(); id-- > 0;) {
      if (program_.instructions[id].op == Op::store) live[id] = true;
      if (!live[id]) continue;
      for (ValueId argument : program_.instructions[id].arguments) {
        if (argument == kNoValue) continue;
        live[index(argument)] = true;
        ++mentions_[index(argument)];
        std::vector<ValueId>& users = users_[index(argument)];
        if (users.empty() || users.back() != static_cast<ValueId>(id)) users.push_back(static_cast<ValueId>(id));
      }
    }
  }

  // A rounding of whole vectors ends one loop over the elements, and another begins.
  void count_runs() {
    for (const program::Step& step : program_.steps) {
      int run = 0;
      for (ValueId id = step.begin; id < step.end; ++id) {
        if (at(id).op == Op::round_to && is_element(id)) ++run;
        form(id).run = run;
      }
    }
  }

  bool is_used_later(ValueId id) const {
    return std::any_of(users_[index(id)].begin(), users_[index(id)].end(),
                       [&](ValueId user) { return step_of(program_, user) != step_of(program_, id); });
  }

  bool needs_vector(ValueId id) {
    if (at(id).op == Op::round_to) return true;
    return std::any_of(users_[index(id)].begin(), users_[index(id)].end(), [&](ValueId user) {
      return at(user).op == Op::round_to || at(user).op == Op::store || form(user).run != form(id).run;
    });
  }

  bool can_fold(ValueId id) {
    if (!at(id).name.empty() || mentions_[index(id)] != 1 || at(id).op == Op::load || is_reduction(at(id).op)) return false;
    const ValueId user = users_[index(id)].front();
    if (is_element(id) && gpu::is_packed(plan_, program_, id) != gpu::is_packed(plan_, program_, user)) return false;
    const bool same_loop = is_element(id) || at(user).domain != Domain::element;
    return same_loop && step_of(program_, user) == step_of(program_, id);
  }

  void find_form(ValueId id) {
    ValueForm& value = form(id);
    if (users_[index(id)].empty()) return;
    if (at(id).op == Op::constant) {
      value.form = Form::literal;
    } else if (!is_element(id)) {
      value.form = can_fold(id) ? Form::folded : Form::single;
    } else if (waits(id)) {
      value.form = Form::batch;
    } else if (is_used_later(id)) {
      value.form = Form::kept;
    } else if (at(id).op == Op::load) {
      value.form = Form::batch;
    } else if (needs_vector(id)) {
      value.form = Form::vector;
    } else {
      value.form = can_fold(id) ? Form::folded : Form::variable;
    }
    if (at(id).op == Op::load || at(id).op == Op::round_to) value.rounded_to = at(id).dtype;
    // Rounded in place: the array has to last as long as what it is rounded to.
    const ValueId user = users_[index(id)].front();
    if (users_[index(id)].size() != 1 || at(user).op != Op::round_to || !is_element(user) || is_used_later(id)) return;
    value.form = std::max(value.form, form(user).form);
    form(user).in_place = value.is_overwritten = true;
  }

  // Arguments first: what is rounded in place stands where its argument does, and a step of a sequence of one name goes on in the
  // variable of the step before.
  void settle(ValueId id) {
    ValueForm& value = form(id);
    if (value.form == Form::none) return;
    for (ValueId argument : at(id).arguments) {
      if (argument == kNoValue) continue;
      ValueForm& other = form(argument);
      if (value.in_place) {
        value.form = other.form;
        value.name = other.name;
        continue;
      }
      const bool one_variable = value.form == other.form && (value.form == Form::single || value.form == Form::variable);
      if (!one_variable || at(id).name.empty() || at(id).name != at(argument).name || users_[index(argument)].size() != 1) continue;
      if (step_of(program_, argument) != step_of(program_, id) || other.run != value.run || is_reduction(at(argument).op)) continue;
      value.in_place = other.is_overwritten = true;
      return;
    }
  }

  void find_name(ValueId id) {
    ValueForm& value = form(id);
    if (value.form == Form::none || value.form == Form::literal || value.form == Form::folded) return;
    if (value.in_place) {
      value.name = in_place_of(id).name;
      return;
    }
    std::string wanted = at(id).name;
    if (wanted.empty()) wanted = at(id).op == Op::load ? to_text(at(id).operand) : "value";
    const std::size_t step = step_of(program_, id);
    if (step != step_ && is_looped()) local_names_.clear();  // loops over chunks have scopes of their own
    step_ = step;
    const bool is_local = is_looped() && is_element(id) && !waits(id);
    std::string name = wanted;
    for (int n = 2; is_taken(name); ++n) name = fmt::format("{}_{}", wanted, n);
    (is_local ? local_names_ : names_).insert(name);
    value.name = name;
  }

  ValueForm& in_place_of(ValueId id) {
    for (ValueId argument : at(id).arguments) {
      if (argument != kNoValue && form(argument).is_overwritten) return form(argument);
    }
    return form(id);
  }

  bool is_taken(const std::string& name) const { return names_.contains(name) || local_names_.contains(name); }

  const Plan& plan_;
  const Program& program_;
  const std::vector<ValueId>& waiting_;
  std::vector<ValueForm> forms_;
  std::vector<std::vector<ValueId>> users_;  // each once
  std::vector<int> mentions_;
  std::set<std::string> names_{std::begin(kReserved), std::end(kReserved)}, local_names_;
  std::size_t step_ = 0;
};

}  // namespace

std::size_t step_of(const Program& program, ValueId id) {
  std::size_t step = 0;
  while (step < program.steps.size() && id >= program.steps[step].end) ++step;
  return step;
}

std::vector<ValueForm> find_forms(const Plan& plan, const Program& program, const std::vector<ValueId>& waiting) {
  return Finder(plan, program, waiting).run();
}

}  // namespace headnorm::cuda_c
