#include "generator/backend/host/forms.h"

#include <algorithm>
#include <limits>

namespace headnorm::host {

using program::StepKind;

namespace {

// rot and pipe are for programs of two sweeps; make_plan allows them, and reg, only where a group is one part.
constexpr std::size_t kFirstSweep = 0, kScalars = 1, kSecondSweep = 2;
constexpr int kAllLines = std::numeric_limits<int>::max() / 2;

llvm::Value* row_begin(FunctionBuilder& b) { return b.function()->getArg(2); }
llvm::Value* row_end(FunctionBuilder& b) { return b.function()->getArg(3); }

bool prefetches(const Plan& plan, PrefetchAt place) {
  const HostSchedule& schedule = plan.host_schedule();
  return schedule.prefetch != Prefetch::none && schedule.prefetch_at == place;
}

// The scalars that the second sweep needs, from the sums of the first.
ScalarValues after_first_sweep(SweepCode& code, SweepJob& job) {
  ScalarValues values = code.finish_sums(job);
  for (const auto& [id, value] : job.scalars) values.emplace(id, value);
  code.evaluate_scalars(code.program().steps[kScalars], SweepCode::Which::all, values);
  return values;
}

// A place in the linear sequence of tiles, row by row.
struct Cursor {
  llvm::Value* row;
  llvm::Value* part;  // the tile's first
};

Cursor advance(FunctionBuilder& b, Cursor cursor) {
  const Plan& plan = b.plan();
  llvm::Value* part = b.CreateAdd(cursor.part, b.i64(plan.host().tile_parts));
  llvm::Value* wraps = b.CreateICmpEQ(part, b.i64(plan.parts_per_row()));
  return {b.CreateAdd(cursor.row, b.CreateZExt(wraps, b.getInt64Ty())), b.CreateSelect(wraps, b.i64(0), part)};
}

llvm::Value* count_tiles(FunctionBuilder& b) {
  const std::int64_t in_row = b.plan().parts_per_row() / b.plan().host().tile_parts;
  return b.CreateMul(b.CreateSub(row_end(b), row_begin(b)), b.i64(in_row));
}

// The first sweep over the tile at `cursor`; `keep` as in SweepJob.
SweepJob first_sweep(FunctionBuilder& b, SweepCode& code, Cursor cursor, KeptValues* keep) {
  SweepJob job{
      .step = kFirstSweep, .parts = b.plan().host().tile_parts, .keep = keep, .prefetch = prefetches(b.plan(), PrefetchAt::read)};
  code.set_bases(job, cursor.row, cursor.part);
  return job;
}

// What rot carries from tile to tile.
struct Carried {
  Cursor cursor;
  KeptValues kept;
  ScalarValues scalars;
};

Values flatten(const Carried& carried, const std::vector<ValueId>& used) {
  Values flat = {carried.cursor.row, carried.cursor.part};
  for (const auto& line : carried.kept) {
    for (const auto& [id, value] : line) flat.insert(flat.end(), value.begin(), value.end());
  }
  for (ValueId id : used) flat.push_back(carried.scalars.at(id));
  return flat;
}

// `kept` has the lines and values that `flat` was made of.
Carried unflatten(const Values& flat, const KeptValues& kept, const std::vector<ValueId>& used) {
  Carried carried{{flat[0], flat[1]}, kept, {}};
  std::size_t next = 2;
  for (auto& line : carried.kept) {
    for (auto& [id, value] : line) {
      for (llvm::Value*& vector : value) vector = flat[next++];
    }
  }
  for (ValueId id : used) carried.scalars[id] = flat[next++];
  return carried;
}

SweepJob second_sweep(FunctionBuilder& b, SweepCode& code, const Carried& carried) {
  SweepJob job{.step = kSecondSweep, .parts = b.plan().host().tile_parts, .scalars = carried.scalars, .kept = &carried.kept};
  code.set_bases(job, carried.cursor.row, carried.cursor.part);
  return job;
}

}  // namespace

void emit_reg(FunctionBuilder& b, SweepCode& code) {
  const Plan& plan = b.plan();
  const int tile_parts = plan.host().tile_parts;
  b.loop("row", row_begin(b), row_end(b), 1, [&](llvm::Value* row) {
    b.loop("part", b.i64(0), b.i64(plan.parts_per_row()), tile_parts, [&](llvm::Value* part) {
      const auto& steps = code.program().steps;
      KeptValues kept;
      ScalarValues scalars;
      std::array<llvm::Value*, kOperandCount> base{};
      for (std::size_t step = 0; step < steps.size(); ++step) {
        if (steps[step].kind == StepKind::scalars) {
          code.evaluate_scalars(steps[step], SweepCode::Which::all, scalars);
          continue;
        }
        const bool first = step == kFirstSweep;
        SweepJob job{
            .step = step, .parts = tile_parts, .base = base, .scalars = scalars, .kept = first ? nullptr : &kept, .keep = &kept};
        job.prefetch = first && prefetches(plan, PrefetchAt::read);
        if (first) code.set_bases(job, row, part);
        base = job.base;
        code.emit({&job}, kAllLines);
        scalars = code.finish_sums(job);
        scalars.insert(job.scalars.begin(), job.scalars.end());
      }
    });
  });
}

void emit_rot(FunctionBuilder& b, SweepCode& code) {
  const std::vector<ValueId> used = code.scalars_used(kSecondSweep);
  Carried begin{{row_begin(b), b.i64(0)}, {}, {}};

  auto* some = llvm::BasicBlock::Create(b.getContext(), "some_rows", b.function());
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", b.function());
  b.CreateCondBr(b.CreateICmpSLT(row_begin(b), row_end(b)), some, done);
  b.SetInsertPoint(some);

  SweepJob prologue = first_sweep(b, code, begin.cursor, &begin.kept);
  code.emit({&prologue}, kAllLines);
  begin.scalars = after_first_sweep(code, prologue);

  llvm::Value* total = count_tiles(b);
  const Values last = b.loop("part", b.i64(1), total, 1, flatten(begin, used), [&](llvm::Value*, const Values& flat) {
    const Carried current = unflatten(flat, begin.kept, used);
    Carried next{advance(b, current.cursor), {}, {}};
    SweepJob second = second_sweep(b, code, current);
    SweepJob first = first_sweep(b, code, next.cursor, &next.kept);
    code.emit({&second, &first}, 1);
    next.scalars = after_first_sweep(code, first);
    return flatten(next, used);
  });

  const Carried end = unflatten(last, begin.kept, used);
  SweepJob epilogue = second_sweep(b, code, end);
  code.emit({&epilogue}, kAllLines);
  b.CreateBr(done);
  b.SetInsertPoint(done);
}

namespace {

// pipe: the scalars of the `lag` tiles under way wait in a ring on the stack, one ring for each value.
class PipeForm {
 public:
  PipeForm(FunctionBuilder& b, SweepCode& code)
      : b_(b),
        code_(code),
        used_(code.scalars_used(kSecondSweep)),
        tile_parts_(b.plan().host().tile_parts),
        lag_(b.plan().host().groups_per_block / tile_parts_) {}

  void emit() {
    llvm::Value* total = count_tiles(b_);
    for (ValueId id : used_) ring_[id] = b_.CreateAlloca(b_.f32(tile_parts_ == 1 ? 0 : tile_parts_), b_.i64(lag_));
    llvm::Value* filled = b_.CreateSelect(b_.CreateICmpSLT(total, b_.i64(lag_)), total, b_.i64(lag_));
    const Cursor start{row_begin(b_), b_.i64(0)};
    const Cursor reader = fill(filled, start);
    const Cursor writer = read_and_write(total, reader, start);
    drain(b_.CreateSub(total, filled), total, writer);
  }

 private:
  // First sweeps alone.
  Cursor fill(llvm::Value* end, Cursor start) {
    const Values at_end = b_.loop("fill", b_.i64(0), end, 1, {start.row, start.part}, [&](llvm::Value* index, const Values& at) {
      SweepJob job = first_sweep(b_, code_, {at[0], at[1]}, nullptr);
      code_.emit({&job}, kAllLines);
      put(index, after_first_sweep(code_, job));
      const Cursor next = advance(b_, {at[0], at[1]});
      return Values{next.row, next.part};
    });
    return {at_end[0], at_end[1]};
  }

  // The first sweep of one tile beside the second of the one `lag` before it; the place where writing stops.
  Cursor read_and_write(llvm::Value* end, Cursor reader, Cursor writer) {
    const Values at_end = b_.loop("part", b_.i64(lag_), end, 1, {reader.row, reader.part, writer.row, writer.part},
                                  [&](llvm::Value* index, const Values& at) {
                                    SweepJob second = second_job({at[2], at[3]}, get(index));  // the ring comes round: index - lag
                                    SweepJob first = first_sweep(b_, code_, {at[0], at[1]}, nullptr);
                                    code_.emit({&second, &first}, b_.plan().host_schedule().chunk_lines);
                                    put(index, after_first_sweep(code_, first));
                                    const Cursor read = advance(b_, {at[0], at[1]}), write = advance(b_, {at[2], at[3]});
                                    return Values{read.row, read.part, write.row, write.part};
                                  });
    return {at_end[2], at_end[3]};
  }

  // Second sweeps alone.
  void drain(llvm::Value* begin, llvm::Value* end, Cursor writer) {
    b_.loop("drain", begin, end, 1, {writer.row, writer.part}, [&](llvm::Value* index, const Values& at) {
      SweepJob job = second_job({at[0], at[1]}, get(index));
      code_.emit({&job}, kAllLines);
      const Cursor next = advance(b_, {at[0], at[1]});
      return Values{next.row, next.part};
    });
  }

  SweepJob second_job(Cursor cursor, const std::map<ValueId, ScalarPlace>& scalars) {
    SweepJob job{.step = kSecondSweep, .parts = tile_parts_};
    code_.set_scalars(job, scalars);
    code_.set_bases(job, cursor.row, cursor.part);
    return job;
  }

  llvm::Value* slot(ValueId id, llvm::Value* index) {
    return b_.address(ring_.at(id), b_.CreateAnd(index, b_.i64(lag_ - 1)), 4 * std::int64_t{tile_parts_});
  }
  void put(llvm::Value* index, const ScalarValues& values) {
    for (ValueId id : used_) b_.CreateAlignedStore(values.at(id), slot(id, index), llvm::Align(4));
  }
  std::map<ValueId, ScalarPlace> get(llvm::Value* index) {
    std::map<ValueId, ScalarPlace> places;
    for (ValueId id : used_) places[id] = {slot(id, index)};
    return places;
  }

  FunctionBuilder& b_;
  SweepCode& code_;
  const std::vector<ValueId> used_;
  const int tile_parts_;
  const std::int64_t lag_;  // in tiles; a power of two
  std::map<ValueId, llvm::Value*> ring_;
};

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

void emit_pipe(FunctionBuilder& b, SweepCode& code) { PipeForm(b, code).emit(); }

void emit_split(FunctionBuilder& b, SweepCode& code) { SplitForm(b, code).emit(); }

}  // namespace headnorm::host
