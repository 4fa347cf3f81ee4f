// Errors as values: a Result<T> holds either a T or an Error that says what is wrong, why, and what to do.
//
// The library never throws across its interfaces, never prints, exits or aborts. Functions that can fail return Result<T>;
// HEADNORM_TRY hands an error on to the caller.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace headnorm {

enum class ErrorKind {
  user,         // the caller's input breaks a rule
  environment,  // something outside the program is missing, full, locked or forbidden
  internal,     // a defect of headnorm itself
};

const char* to_text(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;  // names the value and the rule
  std::string remedy;   // names what to do; may be empty only for internal errors
};

inline Error user_error(std::string message, std::string remedy) {
  return {ErrorKind::user, std::move(message), std::move(remedy)};
}
inline Error environment_error(std::string message, std::string remedy) {
  return {ErrorKind::environment, std::move(message), std::move(remedy)};
}
inline Error internal_error(std::string message) {
  return {ErrorKind::internal, std::move(message),
          "this is a defect of headnorm: please report it with the command that led to it"};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

struct Nothing {};

template <>
class [[nodiscard]] Result<void> : public Result<Nothing> {
 public:
  Result() : Result<Nothing>(Nothing{}) {}
  Result(Error error) : Result<Nothing>(std::move(error)) {}
};

#define HEADNORM_CONCAT_(a, b) a##b
#define HEADNORM_CONCAT(a, b) HEADNORM_CONCAT_(a, b)

// HEADNORM_TRY(auto plan, make_plan(...)): declares `plan`, or returns the error from the enclosing function.
#define HEADNORM_TRY(declaration, expression) HEADNORM_TRY_(HEADNORM_CONCAT(headnorm_result_, __LINE__), declaration, expression)
#define HEADNORM_TRY_(result, declaration, expression) \
  auto result = (expression);                          \
  if (!result.ok()) return std::move(result).error();  \
  declaration = std::move(result).value()

// HEADNORM_CHECK(expression): the same for a Result whose value is not needed.
#define HEADNORM_CHECK(expression)                                                                             \
  do {                                                                                                         \
    if (auto headnorm_check_ = (expression); !headnorm_check_.ok()) return std::move(headnorm_check_).error(); \
  } while (false)

}  // namespace headnorm
