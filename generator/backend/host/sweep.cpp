#include "generator/backend/host/sweep.h"

#include <algorithm>
#include <bit>
#include <set>

namespace headnorm::host {

using program::Domain;
using program::Instruction;
using program::kNoValue;
using program::Op;
using program::Program;
using program::Step;

namespace {

constexpr std::int64_t kCacheLine = 64;
constexpr std::int64_t kLoopTurnLines = 4;  // lines of a turn of the loop over a long part, at least

bool has_f32_input(const KernelSpec& spec) {
  for (Operand operand : kOperands) {
    // f16 NaNs, too, have mantissa bits in the low half of their f32
    if (!is_output(operand) && has_operand(spec, operand) && operand_dtype(spec, operand) != Dtype::bf16) return true;
  }
  return false;
}

}  // namespace

SweepCode::SweepCode(FunctionBuilder& builder, const Program& program)
    : b_(builder), program_(program), plan_(builder.plan()), shape_(plan_.host()), access_(builder, has_f32_input(plan_.spec)) {
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
    if (at(id).op == Op::reduce_dot) ids.push_back(id);
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
    case Op::round_to:
      return access_.widen(access_.narrow({a[0]}, instruction.dtype), instruction.dtype).front();
    case Op::constant:
    case Op::load:
    case Op::store:
    case Op::reduce_dot:
      break;
  }
  return nullptr;
}

void SweepCode::evaluate_scalars(const Step& step, Which which, ScalarValues& values) {
  for (ValueId id = step.begin; id < step.end; ++id) {
    const Instruction& instruction = at(id);
    if (instruction.domain == Domain::element || instruction.op == Op::reduce_dot || instruction.op == Op::load) continue;
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

// Lines after the full ones: one in memory order if a whole vector is left, then what remains in the narrowest vector that holds
// it.
std::vector<Line> SweepCode::tail_lines() const {
  std::vector<Line> lines;
  std::int64_t offset = shape_.lines_per_part * shape_.line_elements;
  std::int64_t left = shape_.tail_elements;
  while (left > 0) {
    Line line;
    line.offset = b_.i64(offset);
    line.elements = static_cast<int>(std::min<std::int64_t>(left, shape_.lanes));
    line.lanes = std::max(2, static_cast<int>(std::bit_ceil(static_cast<unsigned>(line.elements))));
    lines.push_back(line);
    offset += line.elements;
    left -= line.elements;
  }
  return lines;
}

// What is the same for all lines goes in front of them: scalars of the sweep itself, and vectors of the scalars.
void SweepCode::begin(SweepJob& job) {
  const Step& step = program_.steps[job.step];
  for (ValueId id = 0; id < step.end; ++id) {
    if (at(id).op == Op::constant) job.scalars[id] = b_.constant(at(id).immediates[0], 0);
  }
  for (ValueId id = step.begin; id < step.end; ++id) {
    const Instruction& instruction = at(id);
    if (instruction.op == Op::load && instruction.domain != Domain::element)
      job.scalars[id] = access_.load_scalar(job.base[static_cast<std::size_t>(instruction.operand)], instruction.dtype);
  }
  evaluate_scalars(step, Which::all, job.scalars);
  for (ValueId id : reductions(job.step))
    job.sums.lanes[id] = Values(static_cast<std::size_t>(shape_.accumulators), b_.constant(0.0, shape_.lanes));
  for (ValueId id = step.begin; id < step.end; ++id) {
    if (at(id).domain != Domain::element) continue;
    for (ValueId argument : at(id).arguments) {
      if (argument != kNoValue && at(argument).domain != Domain::element)
        job.splats[argument][shape_.lanes] = b_.splat(job.scalars.at(argument), shape_.lanes);
    }
  }
}

LineValue SweepCode::argument(SweepJob& job, const std::map<ValueId, LineValue>& values, ValueId id, const Line& line) {
  if (at(id).domain == Domain::element) return values.at(id);
  llvm::Value*& splat = job.splats[id][line.lanes];
  if (splat != nullptr && line.lanes == shape_.lanes) return LineValue(static_cast<std::size_t>(line.vectors()), splat);
  return LineValue(static_cast<std::size_t>(line.vectors()), b_.splat(job.scalars.at(id), line.lanes));
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

void SweepCode::accumulate(SweepJob& job, ValueId id, const LineValue& a, const LineValue& b, const Line& line,
                           std::int64_t line_index) {
  for (int k = 0; k < line.vectors(); ++k) {
    const auto v = static_cast<std::size_t>(k);
    if (line.lanes != shape_.lanes) {
      job.sums.leftover[id].push_back(b_.CreateFMul(a[v], b[v]));
      continue;
    }
    Values& sums = job.sums.lanes.at(id);
    llvm::Value*& sum = sums[static_cast<std::size_t>(line_index * line.vectors() + k) % sums.size()];
    sum = b_.fma(a[v], b[v], sum);
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
    if (instruction.op == Op::reduce_dot) {
      accumulate(job, id, argument(job, values, instruction.arguments[0], line),
                 argument(job, values, instruction.arguments[1], line), line, line_index);
      continue;
    }
    if (instruction.domain != Domain::element) continue;
    if (instruction.op == Op::load) {
      values[id] = access_.load(job.base[static_cast<std::size_t>(instruction.operand)], instruction.dtype, line);
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
  for (ValueId id : program::kept_values(program_, job.step + 2))
    (*job.keep)[static_cast<std::size_t>(line_index)][id] = values.at(id);
}

void SweepCode::emit(const std::vector<SweepJob*>& jobs, int chunk_lines) {
  for (SweepJob* job : jobs) begin(*job);
  const std::vector<Line> tail = tail_lines();
  const std::int64_t lines = shape_.lines_per_part;
  const std::int64_t all = lines + static_cast<std::int64_t>(tail.size());
  for (SweepJob* job : jobs) {
    if (job->keep != nullptr) job->keep->assign(static_cast<std::size_t>(all), {});
  }
  std::int64_t first = 0;
  if (!shape_.unrolled) {
    emit_loop(jobs, chunk_lines);
    const std::int64_t turn = std::max<std::int64_t>(kLoopTurnLines, shape_.accumulators);
    first = lines / turn * turn;
  }
  for (; first < all; first += chunk_lines) {
    for (SweepJob* job : jobs) {
      for (std::int64_t index = first; index < std::min(all, first + chunk_lines); ++index) {
        const Line full{b_.i64(index * shape_.line_elements), shape_.order, shape_.line_elements, shape_.lanes};
        emit_line(*job, index < lines ? full : tail[static_cast<std::size_t>(index - lines)], index);
      }
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
  for (auto& [id, sums] : job.sums.lanes) {
    Values level = sums;
    for (std::size_t half = level.size() / 2; half > 0; half /= 2) {
      for (std::size_t k = 0; k < half; ++k) level[k] = b_.CreateFAdd(level[k], level[k + half]);
    }
    llvm::Value* total = shape_.lines_per_part > 0 || job.sums.leftover[id].empty() ? b_.sum_of_lanes(level[0]) : nullptr;
    for (llvm::Value* leftover : job.sums.leftover[id]) {
      llvm::Value* sum = b_.sum_of_lanes(leftover);
      total = total == nullptr ? sum : b_.CreateFAdd(total, sum);
    }
    totals[id] = total;
  }
  return totals;
}

}  // namespace headnorm::host
