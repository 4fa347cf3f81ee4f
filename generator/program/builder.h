// Builder: records a sweep program while an algorithm is written down as its formula.
#pragma once

#include <functional>
#include <string>

#include "generator/program/program.h"

namespace headnorm::program {

class Builder;

// A value of the program under construction; combines by the operators below.
struct Value {
  Builder* builder = nullptr;
  ValueId id = kNoValue;
  bool exists() const { return id != kNoValue; }
};

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator+(Value a, double b);
Value operator*(Value a, double b);
Value operator/(double a, Value b);

class Builder {
 public:
  explicit Builder(const KernelSpec& spec);

  // Steps: the values that `body` records belong to the step.
  void sweep(const std::function<void()>& body) { step(StepKind::sweep, body); }
  void scalars(const std::function<void()>& body) { step(StepKind::scalars, body); }

  Value constant(double value);
  Value load(Operand operand);
  void store(Operand operand, Value value);
  Value fma(Value a, Value b, Value c);
  Value abs(Value a);
  Value clamp(Value a, double low, double high);
  Value rsqrt(Value a);
  Value round_to(Value a, Dtype dtype);  // a itself for f32
  Value reduce_dot(Domain partition, Value a, Value b);
  Value reduce_max(Domain partition, Value a);
  Value inverse_power(Value a);
  Value named(std::string name, Value value);

  Value record(Op op, std::array<Value, 3> arguments);
  Program take();

 private:
  Value reduce(Domain partition, Value value);
  void step(StepKind kind, const std::function<void()>& body);
  Value push(Instruction instruction);

  Program program_;
  bool in_sweep_ = false;
};

}  // namespace headnorm::program
