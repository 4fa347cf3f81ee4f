// Errors of the emulator as values: an Outcome<T> holds a T or a text that says what is wrong and where.
//
// The emulator includes nothing of the other modules, so it has a type of its own. A text names the line of the PTX where one is at
// fault. What a kernel does wrong while it runs is a Fault (fault.h), not an Outcome.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace headnorm::emulator {

struct Failure {
  std::string message;
};

template <class T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Outcome(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const std::string& message() const { return std::get<1>(state_).message; }

 private:
  std::variant<T, Failure> state_;
};

struct Done {};

}  // namespace headnorm::emulator
