#include "tuner/cost_model/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "tuner/cost_model/rank_correlation.h"

namespace headnorm {
namespace {

constexpr std::size_t kFigures = std::size(kFittedFigures);
static_assert(kFewestTimes > kFigures);
constexpr int kMostSteps = 60;
constexpr double kDifference = 1e-4;    // of the logarithm of a figure, for slopes
constexpr double kPrior = 1e-3;         // weight of staying at the start, against a mean square error of 1
constexpr double kLongestStep = 0.7;    // of a logarithm: about a factor of two
constexpr double kSettled = 1e-7;       // of the loss, relative
constexpr double kMostEfficiency = 1;   // of the memory
constexpr double kLeastScatter = 0.02;  // of times about the model, which is not right to less
constexpr double kNothing = 1e-9;       // of a matrix, in place of a figure that nothing depends on

using Vector = std::array<double, kFigures>;
using Matrix = std::array<Vector, kFigures>;
using Chosen = std::array<bool, kFigures>;

class Fitting {
 public:
  Fitting(const GpuModel& model, const std::vector<MeasuredTime>& times) : start_(model), times_(times) {
    for (const MeasuredTime& time : times) counts_.push_back(count_tile(time.plan));
  }

  GpuModel model_at(const Vector& shifts) const {
    GpuModel model = start_;
    for (std::size_t i = 0; i < kFigures; ++i) model.at(kFittedFigures[i]).value *= std::exp(shifts[i]);
    return model;
  }

  // log(predicted / measured) of each time.
  std::vector<double> residuals(const Vector& shifts) const {
    const GpuModel model = model_at(shifts);
    std::vector<double> residuals;
    for (std::size_t i = 0; i < times_.size(); ++i)
      residuals.push_back(std::log(predict(times_[i].plan, counts_[i], times_[i].rows, model).time_us / times_[i].time_us));
    return residuals;
  }

  double loss(const std::vector<double>& residuals, const Vector& shifts) const {
    double sum = 0, prior = 0;
    for (double residual : residuals) sum += residual * residual;
    for (double shift : shifts) prior += shift * shift;
    return sum / static_cast<double>(residuals.size()) + kPrior * prior;
  }

  // Levenberg and Marquardt's method; figures that are not chosen stay.
  Vector run(const Chosen& chosen) const {
    Vector shifts{};
    std::vector<double> now = residuals(shifts);
    double damping = 1e-2;
    for (int step = 0; step < kMostSteps; ++step) {
      const Vector wanted = step_from(shifts, now, chosen, damping);
      Vector next = shifts;
      for (std::size_t i = 0; i < kFigures; ++i) next[i] += std::clamp(wanted[i], -kLongestStep, kLongestStep);
      next[kEfficiency] = std::min(next[kEfficiency], std::log(kMostEfficiency / start_[Figure::memory_efficiency]));
      const std::vector<double> then = residuals(next);
      const double before = loss(now, shifts), after = loss(then, next);
      damping *= after < before ? 0.3 : 4;
      if (after >= before) continue;
      shifts = next;
      now = then;
      if (before - after < kSettled * before) break;
    }
    return shifts;
  }

  // What the times say of the chosen figures where the fit has ended: the standard deviations of linear least squares.
  std::array<FigureFit, kFigures> judge(const Vector& shifts, const Chosen& chosen) const {
    const std::vector<double> now = residuals(shifts);
    double square = 0;
    for (double residual : now) square += residual * residual;
    const double count = static_cast<double>(now.size());
    // A fit takes up a part of the scatter: with 12 times and 6 figures half of its square.
    const double freedom = count - static_cast<double>(std::ranges::count(chosen, true));
    const double scatter = std::max(kLeastScatter, std::sqrt(square / freedom));
    const Slopes slopes = slopes_at(shifts, now, chosen);
    Matrix matrix = products(slopes);
    for (std::size_t i = 0; i < kFigures; ++i) matrix[i][i] += kNothing;
    std::array<FigureFit, kFigures> figures;
    for (std::size_t i = 0; i < kFigures; ++i) {
      Vector unit{};
      unit[i] = 1;
      figures[i].figure = kFittedFigures[i];
      figures[i].uncertainty = scatter * std::sqrt(solve(matrix, unit)[i] / count);
      for (double slope : slopes[i]) figures[i].sensitivity = std::max(figures[i].sensitivity, std::abs(slope));
    }
    return figures;
  }

 private:
  using Slopes = std::array<std::vector<double>, kFigures>;
  static constexpr std::size_t kEfficiency = 0;
  static_assert(kFittedFigures[kEfficiency] == Figure::memory_efficiency);

  // Of the residuals with each figure, towards less of it: more of it there may not be. 0 where it is not chosen.
  Slopes slopes_at(const Vector& shifts, const std::vector<double>& now, const Chosen& chosen) const {
    Slopes slopes;
    for (std::size_t i = 0; i < kFigures; ++i) {
      slopes[i].assign(now.size(), 0);
      if (!chosen[i]) continue;
      Vector moved = shifts;
      moved[i] -= kDifference;
      const std::vector<double> then = residuals(moved);
      for (std::size_t k = 0; k < now.size(); ++k) slopes[i][k] = (now[k] - then[k]) / kDifference;
    }
    return slopes;
  }

  // Means of the products of slopes.
  static Matrix products(const Slopes& slopes) {
    Matrix matrix{};
    for (std::size_t i = 0; i < kFigures; ++i) {
      for (std::size_t j = 0; j < kFigures; ++j) {
        for (std::size_t k = 0; k < slopes[i].size(); ++k) matrix[i][j] += slopes[i][k] * slopes[j][k];
        matrix[i][j] /= static_cast<double>(slopes[i].size());
      }
    }
    return matrix;
  }

  Vector step_from(const Vector& shifts, const std::vector<double>& now, const Chosen& chosen, double damping) const {
    const Slopes slopes = slopes_at(shifts, now, chosen);
    const double weight = 1 / static_cast<double>(now.size());
    Matrix matrix = products(slopes);
    Vector right{};
    for (std::size_t i = 0; i < kFigures; ++i) {
      matrix[i][i] += kPrior + damping * (matrix[i][i] + kPrior);
      for (std::size_t k = 0; k < now.size(); ++k) right[i] -= weight * slopes[i][k] * now[k];
      right[i] -= kPrior * shifts[i];
    }
    return solve(matrix, right);
  }

  // Elimination; the matrix is positive definite, so that no pivot vanishes.
  static Vector solve(Matrix matrix, Vector right) {
    for (std::size_t i = 0; i < kFigures; ++i) {
      for (std::size_t j = i + 1; j < kFigures; ++j) {
        const double factor = matrix[j][i] / matrix[i][i];
        for (std::size_t k = i; k < kFigures; ++k) matrix[j][k] -= factor * matrix[i][k];
        right[j] -= factor * right[i];
      }
    }
    for (std::size_t i = kFigures; i-- > 0;) {
      for (std::size_t k = i + 1; k < kFigures; ++k) right[i] -= matrix[i][k] * right[k];
      right[i] /= matrix[i][i];
    }
    return right;
  }

  GpuModel start_;
  const std::vector<MeasuredTime>& times_;
  std::vector<TileCounts> counts_;
};

Result<void> check_times(const GpuModel& model, const std::vector<MeasuredTime>& times) {
  if (times.size() < kFewestTimes)
    return user_error(fmt::format("{} measured times of {} are too few to fit {} figures", times.size(), model.name, kFigures),
                      fmt::format("measure at least {}, of several shapes, row counts and schedules", kFewestTimes));
  for (const MeasuredTime& time : times) {
    if (time.plan.target.kind != TargetKind::gpu || time.plan.target.sm != model.target.sm)
      return user_error(fmt::format("a time of target {} is none of {}", to_text(time.plan.target), model.name),
                        "give the times of one kind of device");
    if (occupancy_of(time.plan, model).blocks == 0)
      return user_error(fmt::format("schedule '{}' does not fit a multiprocessor of {}", to_text(time.plan.schedule), model.title),
                        "give times that were measured on this device");
  }
  return {};
}

}  // namespace

Fit evaluate_fit(const GpuModel& model, const std::vector<MeasuredTime>& times) {
  std::vector<double> predicted, measured;
  std::map<std::pair<std::string, std::int64_t>, std::pair<std::vector<double>, std::vector<double>>> groups;
  double sum = 0;
  for (const MeasuredTime& time : times) {
    predicted.push_back(predict(time.plan, count_tile(time.plan), time.rows, model).time_us);
    measured.push_back(time.time_us);
    const double error = std::log(predicted.back() / measured.back());
    sum += error * error;
    auto& [group_predicted, group_measured] = groups[{to_text(time.plan.spec), time.rows}];
    group_predicted.push_back(predicted.back());
    group_measured.push_back(measured.back());
  }
  Fit fit;
  fit.error = std::sqrt(sum / static_cast<double>(times.size()));
  fit.spearman = spearman(predicted, measured);
  fit.kendall = kendall(predicted, measured);
  for (const auto& [key, group] : groups) {
    if (group.first.size() < 3) continue;
    ++fit.groups;
    fit.spearman_within += spearman(group.first, group.second);
    fit.kendall_within += kendall(group.first, group.second);
  }
  if (fit.groups > 0) {
    fit.spearman_within /= fit.groups;
    fit.kendall_within /= fit.groups;
  }
  return fit;
}

Result<Calibration> calibrate(const GpuModel& model, const std::vector<MeasuredTime>& times, const std::string& source) {
  HEADNORM_CHECK(check_times(model, times));
  const Fitting fitting(model, times);
  Calibration calibration{model, evaluate_fit(model, times), {}, {}};
  Chosen chosen;
  chosen.fill(true);
  // One figure less each time, until the times determine all that are left.
  for (std::size_t left = kFigures; left > 0; --left) {
    const Vector shifts = fitting.run(chosen);
    const std::array<FigureFit, kFigures> figures = fitting.judge(shifts, chosen);
    std::size_t worst = kFigures;
    for (std::size_t i = 0; i < kFigures; ++i) {
      if (!chosen[i]) continue;
      calibration.figures[i] = figures[i];
      if (worst == kFigures || figures[i].uncertainty > figures[worst].uncertainty) worst = i;
    }
    if (figures[worst].is_determined()) {
      calibration.model = fitting.model_at(shifts);
      break;
    }
    chosen[worst] = false;
  }
  for (std::size_t i = 0; i < kFigures; ++i) {
    if (!chosen[i]) continue;
    calibration.model.at(kFittedFigures[i]).confidence = Confidence::calibrated;
    calibration.model.at(kFittedFigures[i]).source = source;
  }
  calibration.after = evaluate_fit(calibration.model, times);
  return calibration;
}

}  // namespace headnorm
