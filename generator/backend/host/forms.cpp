#include "generator/backend/host/forms.h"

#include "generator/backend/host/form_parts.h"

namespace headnorm::host {

using program::StepKind;

namespace {

// rot and pipe are for programs of two sweeps; make_plan allows them, and reg, only where a group is one part.
constexpr std::size_t kScalars = 1, kSecondSweep = 2;

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

}  // namespace

void emit_pipe(FunctionBuilder& b, SweepCode& code) { PipeForm(b, code).emit(); }

}  // namespace headnorm::host
