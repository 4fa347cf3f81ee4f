#include "generator/backend/host/sweep.h"

#include <algorithm>
#include <bit>
#include <set>

namespace headnorm::host {

using program::Domain;
using program::Instruction;
using program::is_reduction;
using program::kNoValue;
using program::Op;
using program::Program;
using program::Step;

namespace {

constexpr std::int64_t kCacheLine = 64;
constexpr std::int64_t kLoopTurnLines = 4;  // lines of a turn of the loop over a long part, at least

NanInputs nan_inputs(const KernelSpec& spec) {
  for (Operand operand : kOperands) {
    if (!is_output(operand) && has_operand(spec, operand) && operand_dtype(spec, operand) != Dtype::bf16) return NanInputs::any;
  }
  return NanInputs::low_half_clear;
}

// As many vectors as a power of two.
llvm::Value* in_pairs(Values vectors, const FunctionBuilder::Combine& combine) {
  for (std::size_t half = vectors.size() / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) vectors[k] = combine(vectors[k], vectors[k + half]);
  }
  return vectors[0];
}

}  // namespace

SweepCode::SweepCode(FunctionBuilder& builder, const Program& program)
    : b_(builder), program_(program), plan_(builder.plan()), shape_(plan_.host()), access_(builder, nan_inputs(plan_.spec)) {
  llvm::Function* function = b_.function();
  for (int k = 0; k < pointer_count(plan_.spec); ++k)
    pointers_.push_back(b_.CreateAlignedLoad(b_.getPtrTy(), b_.address(function->getArg(0), b_.i64(k), 8), llvm::Align(8)));
  for (int k = 0; k < stride_count(plan_.spec); ++k)
    strides_.push_back(b_.CreateAlignedLoad(b_.getInt64Ty(), b_.address(function->getArg(1), b_.i64(k), 8), llvm::Align(8)));
}

void SweepCode::set_bases(SweepJob& job, llvm::Value* row, llvm::Value* part) {
  const KernelSpec& spec = plan_.spec;
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand)) continue;
    const std::int64_t size = size_bytes(operand_dtype(spec, operand));
    llvm::Value* pointer = pointers_[static_cast<std::size_t>(pointer_index(spec, operand))];
    llvm::Value* index = part;  // in parts
    std::int64_t unit = plan_.part_elements * size;
    if (is_row_operand(operand)) {
      llvm::Value* stride = strides_[static_cast<std::size_t>(stride_index(spec, operand))];
      pointer = b_.address(pointer, b_.CreateMul(row, stride, "", false, true), size);
    } else if (operand == Operand::gamma && spec.weight == WeightForm::shared) {
      index = b_.CreateURem(part, b_.i64(plan_.parts_per_head));
    } else if (operand == Operand::gamma && spec.weight == WeightForm::head) {
      index = b_.CreateUDiv(part, b_.i64(plan_.parts_per_head));
      unit = size;
    }
    job.base[static_cast<std::size_t>(operand)] = b_.address(pointer, index, unit);
  }
}

bool SweepCode::is_coarse(ValueId id) const {
  const Domain domain = at(id).domain;
  return (domain == Domain::head && plan_.parts_per_head > 1) || (domain == Domain::seed && plan_.parts_per_seed > 1);
}

std::vector<ValueId> SweepCode::reductions(std::size_t step) const {
  std::vector<ValueId> ids;
  for (ValueId id = program_.steps[step].begin; id < program_.steps[step].end; ++id) {
    if (is_reduction(at(id).op)) ids.push_back(id);
  }
  return ids;
}

std::vector<ValueId> SweepCode::scalars_used(std::size_t step) const {
  std::set<ValueId> ids;
  const Step& sweep = program_.steps[step];
  for (ValueId id = sweep.begin; id < sweep.end; ++id) {
    for (ValueId argument : at(id).arguments) {
      if (argument == kNoValue || argument >= sweep.begin) continue;
      if (at(argument).domain == Domain::head || at(argument).domain == Domain::seed) ids.insert(argument);
    }
  }
  return {ids.begin(), ids.end()};
}

llvm::Value* SweepCode::arithmetic(const Instruction& instruction, const Values& a) {
  switch (instruction.op) {
    case Op::add:
      return b_.CreateFAdd(a[0], a[1], instruction.name);
    case Op::sub:
      return b_.CreateFSub(a[0], a[1], instruction.name);
    case Op::mul:
      return b_.CreateFMul(a[0], a[1], instruction.name);
    case Op::div:
      return b_.CreateFDiv(a[0], a[1], instruction.name);
    case Op::fma:
      return b_.fma(a[0], a[1], a[2]);
    case Op::abs:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a[0]);
    case Op::clamp:
      return b_.clamp(a[0], instruction.immediates[0], instruction.immediates[1]);
    case Op::rsqrt:
      return b_.rsqrt(a[0]);
    case Op::inverse_power:
      return b_.inverse_power(a[0]);
    case Op::round_to:
      return access_.widen(access_.narrow({a[0]}, instruction.dtype), instruction.dtype).front();
    case Op::constant:
    case Op::load:
    case Op::store:
    case Op::reduce_dot:
    case Op::reduce_max:
      break;
  }
  return nullptr;
}

void SweepCode::evaluate_scalars(const Step& step, Which which, ScalarValues& values) {
  for (ValueId id = step.begin; id < step.end; ++id) {
    const Instruction& instruction = at(id);
    if (instruction.domain == Domain::element || is_reduction(instruction.op) || instruction.op == Op::load) continue;
    if (which != Which::all && instruction.domain != Domain::uniform && is_coarse(id) != (which == Which::coarse)) continue;
    if (instruction.op == Op::constant) {
      values[id] = b_.constant(instruction.immediates[0], 0);
      continue;
    }
    Values arguments;
    int lanes = 0;
    for (ValueId argument : instruction.arguments) {
      if (argument == kNoValue) continue;
      arguments.push_back(values.at(argument));
      lanes = std::max(lanes, lanes_of(arguments.back()));
    }
    for (llvm::Value*& argument : arguments) {
      if (lanes_of(argument) < lanes) argument = b_.splat(argument, lanes);
    }
    values[id] = arithmetic(instruction, arguments);
  }
}

// Of a stretch of a row in straight code: full lines; then, in memory order, a whole vector if one is left, and what remains in the
// narrowest vector that holds it.
std::vector<Line> SweepCode::lines_of(std::int64_t begin, std::int64_t end) const {
  std::vector<Line> lines;
  for (; begin + shape_.line_elements <= end; begin += shape_.line_elements)
    lines.push_back({b_.i64(begin), shape_.order, shape_.line_elements, shape_.lanes, begin});
  while (begin < end) {
    const auto left = static_cast<int>(std::min<std::int64_t>(end - begin, shape_.lanes));
    const int lanes = std::max(2, static_cast<int>(std::bit_ceil(static_cast<unsigned>(left))));
    lines.push_back({b_.i64(begin), LaneOrder::memory, left, lanes, begin});
    begin += left;
  }
  return lines;
}

// What is the same for all lines goes in front of them: scalars of the sweep itself, and vectors of the scalars of a single part.
void SweepCode::begin(SweepJob& job) {
  const Step& step = program_.steps[job.step];
  for (ValueId id = 0; id < step.end; ++id) {
    if (at(id).op == Op::constant) job.scalars[id] = b_.constant(at(id).immediates[0], 0);
  }
  for (ValueId id = step.begin; id < step.end; ++id) {
    const Instruction& instruction = at(id);
    if (instruction.op == Op::load && instruction.domain != Domain::element) job.scalars[id] = load_per_head(job, instruction);
  }
  evaluate_scalars(step, Which::all, job.scalars);
  if (job.parts > 1) return;
  for (ValueId id : reductions(job.step))
    job.sums.lanes[id] = Values(static_cast<std::size_t>(shape_.accumulators), b_.constant(0.0, shape_.lanes));
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (at(id).domain != Domain::element) continue;
    for (ValueId argument : at(id).arguments) {
      if (argument != kNoValue && at(argument).domain != Domain::element) splat_of_part(job, argument, 0, shape_.lanes);
    }
  }
}

LineValue SweepCode::argument(SweepJob& job, const std::map<ValueId, LineValue>& values, ValueId id, const Line& line) {
  if (at(id).domain == Domain::element) return values.at(id);
  LineValue value;
  for (int k = 0; k < line.vectors(); ++k)
    value.push_back(job.parts > 1 ? tile_argument(job, id, line, k) : splat_of_part(job, id, 0, line.lanes));
  return value;
}

void SweepCode::emit_prefetch(SweepJob& job, const Line& line, std::int64_t line_index) {
  const HostSchedule& schedule = plan_.host_schedule();
  const int x_bytes = size_bytes(plan_.spec.x_dtype);
  for (Operand operand : {Operand::x, Operand::residual}) {
    if (!has_operand(plan_.spec, operand)) continue;
    const std::int64_t size = size_bytes(operand_dtype(plan_.spec, operand));
    const std::int64_t bytes = line.elements * size;
    if (bytes < kCacheLine && line_index * bytes % kCacheLine >= bytes) continue;  // an earlier line asked for this cache line
    llvm::Value* address = b_.address(job.base[static_cast<std::size_t>(operand)], line.offset, size);
    const std::int64_t distance = schedule.prefetch_bytes / x_bytes * size;
    const int locality = schedule.prefetch == Prefetch::t0 ? 3 : schedule.prefetch == Prefetch::t1 ? 2 : 0;
    for (std::int64_t at = 0; at < bytes; at += kCacheLine) {
      llvm::Value* ahead = b_.CreatePtrAdd(address, b_.i64(distance + at));
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ahead->getType()},
                         {ahead, b_.getInt32(0), b_.getInt32(static_cast<std::uint32_t>(locality)), b_.getInt32(1)});
    }
  }
}

llvm::Value* SweepCode::combine(ValueId id, llvm::Value* a, llvm::Value* b) {
  return at(id).op == Op::reduce_max ? b_.larger(a, b) : b_.CreateFAdd(a, b);
}

void SweepCode::accumulate(SweepJob& job, ValueId id, const std::map<ValueId, LineValue>& values, const Line& line,
                           std::int64_t line_index) {
  const bool is_max = at(id).op == Op::reduce_max;
  const LineValue a = argument(job, values, at(id).arguments[0], line);
  const LineValue b = is_max ? a : argument(job, values, at(id).arguments[1], line);
  for (int k = 0; k < line.vectors(); ++k) {
    const auto v = static_cast<std::size_t>(k);
    if (job.parts > 1) {
      accumulate_tile(job, id, a[v], b[v], parts_of_lanes(line, k, plan_.part_elements));
      continue;
    }
    if (line.lanes != shape_.lanes) {
      job.sums.leftover[id].push_back(is_max ? a[v] : b_.CreateFMul(a[v], b[v]));
      continue;
    }
    Values& sums = job.sums.lanes.at(id);
    llvm::Value*& sum = sums[static_cast<std::size_t>(line_index * line.vectors() + k) % sums.size()];
    sum = is_max ? b_.larger(a[v], sum) : b_.fma(a[v], b[v], sum);
  }
}

void SweepCode::emit_line(SweepJob& job, const Line& line, std::int64_t line_index) {
  if (job.prefetch) emit_prefetch(job, line, line_index);
  const Step& step = program_.steps[job.step];
  std::map<ValueId, LineValue> values;
  std::map<ValueId, Values> narrowed;  // results of round_to, before they were widened again
  if (job.kept != nullptr) values = (*job.kept)[static_cast<std::size_t>(line_index)];
  for (ValueId id = step.begin; id < step.end; ++id) {
    const Instruction& instruction = at(id);
    if (is_reduction(instruction.op)) {
      accumulate(job, id, values, line, line_index);
      continue;
    }
    if (instruction.domain != Domain::element) continue;
    if (instruction.op == Op::load) {
      values[id] = load_element(job, instruction, line);
      continue;
    }
    if (instruction.op == Op::store) {
      const ValueId source = instruction.arguments[0];
      Values stored = argument(job, values, source, line);
      if (instruction.dtype != Dtype::f32) {
        const bool known = at(source).op == Op::round_to && at(source).dtype == instruction.dtype && narrowed.count(source) != 0;
        stored = known ? narrowed.at(source) : access_.narrow(stored, instruction.dtype);
      }
      access_.store(job.base[static_cast<std::size_t>(instruction.operand)], instruction.dtype, line, stored,
                    plan_.host_schedule().store);
      continue;
    }
    if (instruction.op == Op::round_to) {
      narrowed[id] = access_.narrow(argument(job, values, instruction.arguments[0], line), instruction.dtype);
      values[id] = access_.widen(narrowed[id], instruction.dtype);
      continue;
    }
    LineValue& value = values[id];
    for (int k = 0; k < line.vectors(); ++k) {
      Values arguments;
      for (ValueId a : instruction.arguments) {
        if (a != kNoValue) arguments.push_back(argument(job, values, a, line)[static_cast<std::size_t>(k)]);
      }
      value.push_back(arithmetic(instruction, arguments));
    }
  }
  if (job.keep == nullptr) return;
  for (ValueId id : program::values_to_keep(program_, job.step))
    (*job.keep)[static_cast<std::size_t>(line_index)][id] = values.at(id);
}

void SweepCode::emit(const std::vector<SweepJob*>& jobs, int chunk_lines) {
  for (SweepJob* job : jobs) begin(*job);
  std::int64_t first = 0;  // line of straight code
  if (!shape_.unrolled) {
    emit_loop(jobs, chunk_lines);
    const std::int64_t turn = std::max<std::int64_t>(kLoopTurnLines, shape_.accumulators);
    first = shape_.lines_per_part / turn * turn;
  }
  const std::vector<Line> lines = lines_of(first * shape_.line_elements, jobs.front()->parts * plan_.part_elements);
  for (SweepJob* job : jobs) {
    if (job->keep != nullptr) job->keep->resize(lines.size());
  }
  const auto chunk = static_cast<std::size_t>(chunk_lines);
  for (std::size_t begin = 0; begin < lines.size(); begin += chunk) {
    for (SweepJob* job : jobs) {
      for (std::size_t k = begin; k < std::min(lines.size(), begin + chunk); ++k)
        emit_line(*job, lines[k], first + static_cast<std::int64_t>(k));
    }
  }
}

// The full turns of a long part: a loop that carries the partial sums of all jobs.
void SweepCode::emit_loop(const std::vector<SweepJob*>& jobs, int chunk_lines) {
  const std::int64_t turn = std::max<std::int64_t>(kLoopTurnLines, shape_.accumulators);
  const std::int64_t turns = shape_.lines_per_part / turn;
  Values initial;
  for (SweepJob* job : jobs) {
    for (auto& [id, sums] : job->sums.lanes) initial.insert(initial.end(), sums.begin(), sums.end());
  }
  auto scatter = [&](const Values& carried) {
    std::size_t next = 0;
    for (SweepJob* job : jobs) {
      for (auto& [id, sums] : job->sums.lanes) {
        for (llvm::Value*& sum : sums) sum = carried[next++];
      }
    }
  };
  const Values sums = b_.loop("lines", b_.i64(0), b_.i64(turns * turn * shape_.line_elements), turn * shape_.line_elements, initial,
                              [&](llvm::Value* offset, const Values& carried) {
                                scatter(carried);
                                for (std::int64_t first = 0; first < turn; first += chunk_lines) {
                                  for (SweepJob* job : jobs) {
                                    for (std::int64_t k = first; k < std::min<std::int64_t>(turn, first + chunk_lines); ++k) {
                                      llvm::Value* at = b_.CreateAdd(offset, b_.i64(k * shape_.line_elements), "", true, true);
                                      emit_line(*job, {at, shape_.order, shape_.line_elements, shape_.lanes}, k);
                                    }
                                  }
                                }
                                Values next;
                                for (SweepJob* job : jobs) {
                                  for (auto& [id, partial] : job->sums.lanes)
                                    next.insert(next.end(), partial.begin(), partial.end());
                                }
                                return next;
                              });
  scatter(sums);
}

ScalarValues SweepCode::finish_sums(SweepJob& job) {
  ScalarValues totals;
  auto add = [this](llvm::Value* a, llvm::Value* b) { return b_.CreateFAdd(a, b); };
  for (const auto& [id, tile] : job.sums.tile) {
    std::vector<LaneSums> vectors;
    for (const auto& [parts, sums] : tile) vectors.push_back({in_pairs(sums.accumulators, add), parts});
    totals[id] = sum_of_parts(b_, std::move(vectors), job.parts);
  }
  for (const auto& [id, sums] : job.sums.lanes) {
    auto both = [this, id = id](llvm::Value* a, llvm::Value* b) { return combine(id, a, b); };
    llvm::Value* vector = in_pairs(sums, both);
    const bool has_whole_vectors = plan_.part_elements >= shape_.lanes || job.sums.leftover[id].empty();
    llvm::Value* total = has_whole_vectors ? b_.reduce_lanes(vector, both) : nullptr;
    for (llvm::Value* leftover : job.sums.leftover[id]) {
      llvm::Value* sum = b_.reduce_lanes(leftover, both);
      total = total == nullptr ? sum : both(total, sum);
    }
    totals[id] = total;
  }
  return totals;
}

}  // namespace headnorm::host
