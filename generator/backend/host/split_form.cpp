#include "generator/backend/host/form_parts.h"
#include "generator/backend/host/forms.h"

namespace headnorm::host {

using program::StepKind;

namespace {

// split: the statistics of a block of parts wait in arrays on the stack, one array for each scalar that crosses steps.
class SplitForm {
 public:
  SplitForm(FunctionBuilder& b, SweepCode& code) : b_(b), code_(code), plan_(b.plan()), shape_(plan_.host()) {
    const std::int64_t lanes = shape_.lanes;
    capacity_ = (shape_.groups_per_block * shape_.rows_per_block * plan_.parts_per_group + lanes - 1) / lanes * lanes;
    const auto& steps = code_.program().steps;
    for (std::size_t step = 0; step < steps.size(); ++step) {
      for (ValueId id : code_.reductions(step)) add_array(id);
      for (ValueId id : code_.scalars_used(step)) add_array(id);
    }
    clear_arrays();
  }

  void emit() {
    const std::int64_t rows_per_block = shape_.rows_per_block;
    b_.loop("block", row_begin(b_), row_end(b_), rows_per_block, [&](llvm::Value* row) {
      llvm::Value* left = b_.CreateSub(row_end(b_), row);
      rows_ = rows_per_block == 1 ? b_.i64(1)
                                  : b_.CreateSelect(b_.CreateICmpSLT(left, b_.i64(rows_per_block)), left, b_.i64(rows_per_block));
      if (shape_.groups_per_block == plan_.groups_per_row) {
        emit_block(row, b_.i64(0), b_.i64(plan_.groups_per_row));
        return;
      }
      b_.loop("groups", b_.i64(0), b_.i64(plan_.groups_per_row), shape_.groups_per_block, [&](llvm::Value* group) {
        llvm::Value* most = b_.i64(shape_.groups_per_block);
        llvm::Value* rest = b_.CreateSub(b_.i64(plan_.groups_per_row), group);
        const bool even = plan_.groups_per_row % shape_.groups_per_block == 0;
        emit_block(row, group, even ? most : b_.CreateSelect(b_.CreateICmpSLT(rest, most), rest, most));
      });
    });
  }

 private:
  void add_array(ValueId id) {
    if (arrays_.count(id) != 0) return;
    llvm::AllocaInst* array = b_.CreateAlloca(b_.getFloatTy(), b_.i64(capacity_));
    array->setAlignment(llvm::Align(64));
    arrays_[id] = array;
  }

  // Lanes past the last part are computed, too: let them be numbers.
  void clear_arrays() {
    for (const auto& [id, array] : arrays_) {
      b_.loop("clear", b_.i64(0), b_.i64(capacity_), shape_.lanes, [&, array = array](llvm::Value* index) {
        b_.CreateAlignedStore(b_.constant(0.0, shape_.lanes), b_.address(array, index, 4), llvm::Align(4));
      });
    }
  }

  // Of the part `index` of the block. Partial sums have a place for every part; results that are one for a group, a place a group.
  ScalarPlace place(ValueId id, llvm::Value* index) {
    const bool coarse = code_.is_coarse(id);
    if (coarse) index = b_.CreateUDiv(index, b_.i64(plan_.parts_per_group));
    return {b_.address(arrays_.at(id), index, 4), coarse ? plan_.parts_per_group : 1};
  }

  void emit_block(llvm::Value* row, llvm::Value* first_group, llvm::Value* groups) {
    const auto& steps = code_.program().steps;
    for (std::size_t step = 0; step < steps.size(); ++step) {
      if (steps[step].kind == StepKind::sweep) {
        emit_sweep(step, row, first_group, groups);
      } else if (plan_.parts_per_group == 1) {
        emit_flat_scalars(step, groups);
      } else {
        emit_grouped_scalars(step, groups);
      }
    }
  }

  // The first sweep is the one that reads, the last the one that writes; in one of them the schedule prefetches.
  bool prefetches_in(std::size_t step) const {
    if (step + 1 == code_.program().steps.size()) return prefetches(plan_, PrefetchAt::write);
    return step == kFirstSweep && prefetches(plan_, PrefetchAt::read);
  }

  void emit_sweep(std::size_t step, llvm::Value* row, llvm::Value* first_group, llvm::Value* groups) {
    const std::int64_t ratio = plan_.parts_per_group;
    llvm::Value* parts = b_.CreateMul(groups, b_.i64(ratio));
    llvm::Value* first_part = b_.CreateMul(first_group, b_.i64(ratio));
    auto one_row = [&](llvm::Value* r) {
      llvm::Value* this_row = b_.CreateAdd(row, r);
      llvm::Value* first_index = b_.CreateMul(r, parts);  // whole rows: `parts` is all parts of a row
      auto tile = [&](llvm::Value* p, int count) {
        llvm::Value* index = b_.CreateAdd(first_index, p);
        SweepJob job{.step = step, .parts = count, .prefetch = prefetches_in(step)};
        std::map<ValueId, ScalarPlace> places;
        for (ValueId id : code_.scalars_used(step)) places[id] = place(id, index);
        code_.set_scalars(job, places);
        code_.set_bases(job, this_row, b_.CreateAdd(first_part, p));
        code_.emit({&job}, kAllLines);
        for (const auto& [id, sum] : code_.finish_sums(job))
          b_.CreateAlignedStore(sum, b_.address(arrays_.at(id), index, 4), llvm::Align(4));
      };
      const std::int64_t tile_parts = shape_.tile_parts, left = plan_.parts_per_row() % tile_parts;
      llvm::Value* whole = left == 0 ? parts : b_.CreateAnd(parts, b_.i64(-tile_parts));  // a power of two
      b_.loop("tile", b_.i64(0), whole, tile_parts, [&](llvm::Value* p) { tile(p, shape_.tile_parts); });
      if (left != 0) b_.loop("last_tile", whole, parts, tile_parts, [&](llvm::Value* p) { tile(p, static_cast<int>(left)); });
    };
    if (shape_.rows_per_block == 1)
      one_row(b_.i64(0));
    else
      b_.loop("row", b_.i64(0), rows_, 1, one_row);
  }

  // A group is a part: all values of a block stand in arrays of one length, and a vector of them is computed at once.
  void emit_flat_scalars(std::size_t step, llvm::Value* groups) {
    const int lanes = shape_.lanes;
    b_.loop("scalars", b_.i64(0), b_.CreateMul(rows_, groups), lanes, [&](llvm::Value* index) {
      ScalarValues values;
      for (const auto& [id, array] : arrays_) {
        if (id < code_.program().steps[step].begin)
          values[id] = b_.CreateAlignedLoad(b_.f32(lanes), b_.address(array, index, 4),
                                            llvm::Align(64 < lanes * 4 ? 64 : static_cast<std::uint64_t>(lanes) * 4));
      }
      evaluate(step, SweepCode::Which::all, values, index, lanes);
    });
  }

  // Coarse values group by group from the sums over its parts, then the fine ones of the group's parts.
  void emit_grouped_scalars(std::size_t step, llvm::Value* groups) {
    const std::int64_t ratio = plan_.parts_per_group;
    b_.loop("group", b_.i64(0), b_.CreateMul(rows_, groups), 1, [&](llvm::Value* group) {
      llvm::Value* first = b_.CreateMul(group, b_.i64(ratio));
      ScalarValues coarse;
      for (ValueId id : code_.reductions(step - 1)) {
        if (!code_.is_coarse(id)) continue;
        // The partial sums stand at the parts' indices; the total is used here only.
        coarse[id] = b_.loop("sum", b_.i64(0), b_.i64(ratio), 1, {b_.constant(0.0, 0)}, [&](llvm::Value* p, const Values& sum) {
          llvm::Value* partial = b_.CreateLoad(b_.getFloatTy(), b_.address(arrays_.at(id), b_.CreateAdd(first, p), 4));
          return Values{code_.combine(id, sum[0], partial)};
        })[0];
      }
      for (ValueId id : code_.scalars_used(step)) {  // of an earlier scalar step: one for the group
        if (coarse.count(id) == 0 && code_.is_coarse(id))
          coarse[id] = b_.CreateLoad(b_.getFloatTy(), b_.address(arrays_.at(id), group, 4));
      }
      evaluate(step, SweepCode::Which::coarse, coarse, group, 0);
      b_.loop("scalars", b_.i64(0), b_.i64(ratio), 1, [&](llvm::Value* p) {
        llvm::Value* index = b_.CreateAdd(first, p);
        ScalarValues fine = coarse;
        for (const auto& [id, array] : arrays_) {
          if (id < code_.program().steps[step].begin && !code_.is_coarse(id))
            fine[id] = b_.CreateLoad(b_.getFloatTy(), b_.address(array, index, 4));
        }
        evaluate(step, SweepCode::Which::fine, fine, index, 0);
      });
    });
  }

  // Evaluates the step and stores its results that later sweeps use at `index` of their arrays.
  void evaluate(std::size_t step, SweepCode::Which which, ScalarValues& values, llvm::Value* index, int lanes) {
    const program::Step& scalars = code_.program().steps[step];
    code_.evaluate_scalars(scalars, which, values);
    for (const auto& [id, array] : arrays_) {
      if (id < scalars.begin || id >= scalars.end) continue;
      if (which != SweepCode::Which::all && code_.is_coarse(id) != (which == SweepCode::Which::coarse)) continue;
      llvm::Value* value = values.at(id);
      if (lanes_of(value) < lanes) value = b_.splat(value, lanes);
      b_.CreateAlignedStore(value, b_.address(array, index, 4), llvm::Align(4));
    }
  }

  FunctionBuilder& b_;
  SweepCode& code_;
  const Plan& plan_;
  const HostPlan& shape_;
  std::int64_t capacity_ = 0;
  std::map<ValueId, llvm::Value*> arrays_;
  llvm::Value* rows_ = nullptr;  // of the block
};

}  // namespace

void emit_split(FunctionBuilder& b, SweepCode& code) { SplitForm(b, code).emit(); }

}  // namespace headnorm::host
