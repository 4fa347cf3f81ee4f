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

Values pick(const ScalarValues& values, const std::vector<ValueId>& ids) {
  Values picked;
  for (ValueId id : ids) picked.push_back(values.at(id));
  return picked;
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

std::int64_t tiles_per_row(const Plan& plan) { return plan.parts_per_row() / plan.host().tile_parts; }

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
  const Plan& plan = b.plan();
  const int tile_parts = plan.host().tile_parts;
  const std::vector<ValueId> used = code.scalars_used(kSecondSweep);
  const Cursor start{row_begin(b), b.i64(0)};

  auto* some = llvm::BasicBlock::Create(b.getContext(), "some_rows", b.function());
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", b.function());
  b.CreateCondBr(b.CreateICmpSLT(row_begin(b), row_end(b)), some, done);
  b.SetInsertPoint(some);

  KeptValues kept;
  SweepJob prologue{.step = kFirstSweep, .parts = tile_parts, .keep = &kept, .prefetch = prefetches(plan, PrefetchAt::read)};
  code.set_bases(prologue, start.row, start.part);
  code.emit({&prologue}, kAllLines);
  const ScalarValues first_scalars = after_first_sweep(code, prologue);

  // Carried from part to part: its place, what it kept, and its scalars.
  auto flatten = [&](Cursor cursor, const KeptValues& values, const ScalarValues& scalars) {
    Values flat = {cursor.row, cursor.part};
    for (const auto& line : values) {
      for (const auto& [id, value] : line) flat.insert(flat.end(), value.begin(), value.end());
    }
    const Values picked = pick(scalars, used);
    flat.insert(flat.end(), picked.begin(), picked.end());
    return flat;
  };
  auto unflatten = [&](const Values& flat, KeptValues& values, ScalarValues& scalars) {
    std::size_t next = 2;
    for (auto& line : values) {
      for (auto& [id, value] : line) {
        for (llvm::Value*& vector : value) vector = flat[next++];
      }
    }
    for (ValueId id : used) scalars[id] = flat[next++];
    return Cursor{flat[0], flat[1]};
  };

  llvm::Value* total = b.CreateMul(b.CreateSub(row_end(b), row_begin(b)), b.i64(tiles_per_row(plan)));
  const Values last =
      b.loop("part", b.i64(1), total, 1, flatten(start, kept, first_scalars), [&](llvm::Value*, const Values& carried) {
        KeptValues current = kept, next_kept;
        ScalarValues scalars;
        const Cursor cursor = unflatten(carried, current, scalars);
        const Cursor next = advance(b, cursor);
        SweepJob second{.step = kSecondSweep, .parts = tile_parts, .scalars = scalars, .kept = &current};
        code.set_bases(second, cursor.row, cursor.part);
        SweepJob first{
            .step = kFirstSweep, .parts = tile_parts, .keep = &next_kept, .prefetch = prefetches(plan, PrefetchAt::read)};
        code.set_bases(first, next.row, next.part);
        code.emit({&second, &first}, 1);
        return flatten(next, next_kept, after_first_sweep(code, first));
      });

  ScalarValues scalars;
  const Cursor cursor = unflatten(last, kept, scalars);
  SweepJob epilogue{.step = kSecondSweep, .parts = tile_parts, .scalars = scalars, .kept = &kept};
  code.set_bases(epilogue, cursor.row, cursor.part);
  code.emit({&epilogue}, kAllLines);
  b.CreateBr(done);
  b.SetInsertPoint(done);
}

void emit_pipe(FunctionBuilder& b, SweepCode& code) {
  const Plan& plan = b.plan();
  const std::vector<ValueId> used = code.scalars_used(kSecondSweep);
  const int tile_parts = plan.host().tile_parts;
  const std::int64_t lag = plan.host().groups_per_block / tile_parts;  // in tiles; a power of two
  llvm::Value* total = b.CreateMul(b.CreateSub(row_end(b), row_begin(b)), b.i64(tiles_per_row(plan)));

  // The scalars of the `lag` tiles under way, a ring for each value.
  llvm::Type* of_tile = b.f32(tile_parts == 1 ? 0 : tile_parts);
  std::map<ValueId, llvm::Value*> ring;
  for (ValueId id : used) ring[id] = b.CreateAlloca(of_tile, b.i64(lag));
  auto slot = [&](ValueId id, llvm::Value* index) {
    return b.address(ring.at(id), b.CreateAnd(index, b.i64(lag - 1)), 4 * std::int64_t{tile_parts});
  };
  auto put = [&](llvm::Value* index, const ScalarValues& values) {
    for (ValueId id : used) b.CreateAlignedStore(values.at(id), slot(id, index), llvm::Align(4));
  };
  auto get = [&](llvm::Value* index) {
    std::map<ValueId, ScalarPlace> places;
    for (ValueId id : used) places[id] = {slot(id, index)};
    return places;
  };
  auto first_job = [&](Cursor cursor) {
    SweepJob job{.step = kFirstSweep, .parts = tile_parts, .prefetch = prefetches(plan, PrefetchAt::read)};
    code.set_bases(job, cursor.row, cursor.part);
    return job;
  };
  auto second_job = [&](Cursor cursor, const std::map<ValueId, ScalarPlace>& scalars) {
    SweepJob job{.step = kSecondSweep, .parts = tile_parts};
    code.set_scalars(job, scalars);
    code.set_bases(job, cursor.row, cursor.part);
    return job;
  };

  const Cursor start{row_begin(b), b.i64(0)};
  llvm::Value* filled = b.CreateSelect(b.CreateICmpSLT(total, b.i64(lag)), total, b.i64(lag));
  const Values reader = b.loop("fill", b.i64(0), filled, 1, {start.row, start.part}, [&](llvm::Value* index, const Values& at) {
    SweepJob job = first_job({at[0], at[1]});
    code.emit({&job}, kAllLines);
    put(index, after_first_sweep(code, job));
    const Cursor next = advance(b, {at[0], at[1]});
    return Values{next.row, next.part};
  });
  const Values both = b.loop("part", b.i64(lag), total, 1, {reader[0], reader[1], start.row, start.part},
                             [&](llvm::Value* index, const Values& at) {
                               SweepJob second = second_job({at[2], at[3]}, get(index));  // the ring comes round: index - lag
                               SweepJob first = first_job({at[0], at[1]});
                               code.emit({&second, &first}, plan.host_schedule().chunk_lines);
                               put(index, after_first_sweep(code, first));
                               const Cursor read = advance(b, {at[0], at[1]}), write = advance(b, {at[2], at[3]});
                               return Values{read.row, read.part, write.row, write.part};
                             });
  b.loop("drain", b.CreateSub(total, filled), total, 1, {both[2], both[3]}, [&](llvm::Value* index, const Values& at) {
    SweepJob job = second_job({at[0], at[1]}, get(index));
    code.emit({&job}, kAllLines);
    const Cursor next = advance(b, {at[0], at[1]});
    return Values{next.row, next.part};
  });
}

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
    const std::int64_t last = static_cast<std::int64_t>(steps.size()) - 1;
    for (std::size_t step = 0; step < steps.size(); ++step) {
      if (steps[step].kind == StepKind::sweep) {
        const bool reads = static_cast<std::int64_t>(step) != last;
        emit_sweep(step, row, first_group, groups,
                   prefetches(plan_, reads ? PrefetchAt::read : PrefetchAt::write) && (!reads || step == 0));
      } else if (plan_.parts_per_group == 1) {
        emit_flat_scalars(step, groups);
      } else {
        emit_grouped_scalars(step, groups);
      }
    }
  }

  void emit_sweep(std::size_t step, llvm::Value* row, llvm::Value* first_group, llvm::Value* groups, bool prefetch) {
    const std::int64_t ratio = plan_.parts_per_group;
    llvm::Value* parts = b_.CreateMul(groups, b_.i64(ratio));
    llvm::Value* first_part = b_.CreateMul(first_group, b_.i64(ratio));
    auto one_row = [&](llvm::Value* r) {
      llvm::Value* this_row = b_.CreateAdd(row, r);
      llvm::Value* first_index = b_.CreateMul(r, parts);  // whole rows: `parts` is all parts of a row
      auto tile = [&](llvm::Value* p, int count) {
        llvm::Value* index = b_.CreateAdd(first_index, p);
        SweepJob job{.step = step, .parts = count, .prefetch = prefetch};
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
