// Prints why one statistic per head: how a row's energy spreads over its heads, and what each head is scaled by with one RMS for
// the whole row and with one RMS per head. With --y also compares the output of a kernel (gamma 1) with the formula in double.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cli/npy.h"
#include "core/dtype.h"

namespace {

using headnorm::Dtype;
using headnorm::Error;
using headnorm::Result;

constexpr double kEps = 1e-6;  // the default of headnorm's --eps

struct Matrix {
  std::int64_t rows = 0, width = 0;
  Dtype dtype = Dtype::f32;
  std::vector<float> values;

  float at(std::int64_t row, std::int64_t column) const { return values[static_cast<std::size_t>(row * width + column)]; }
};

Result<Matrix> read_matrix(const std::string& path) {
  HEADNORM_TRY(const headnorm::cli::NpyArray array, headnorm::cli::read_npy(path));
  if (array.header.shape.size() != 2 || array.header.shape[0] < 1 || array.header.shape[1] < 1) {
    return headnorm::user_error(
        fmt::format("{} has shape {}; wanted are rows x channels", path, headnorm::cli::shape_text(array.header.shape)),
        "give a two-dimensional array that is not empty");
  }
  Matrix matrix{array.header.shape[0], array.header.shape[1], array.header.dtype, {}};
  const auto* element = static_cast<const char*>(array.data());
  const auto count = static_cast<std::size_t>(matrix.rows * matrix.width);
  matrix.values.reserve(count);
  for (std::size_t i = 0; i < count; ++i, element += headnorm::size_bytes(matrix.dtype)) {
    matrix.values.push_back(headnorm::load_element(element, matrix.dtype));
  }
  return matrix;
}

Result<void> check_same_shape(const Matrix& x, const Matrix& other, const std::string& path) {
  if (other.rows == x.rows && other.width == x.width) return {};
  return headnorm::user_error(fmt::format("{} is {} x {}, x is {} x {}", path, other.rows, other.width, x.rows, x.width),
                              "give arrays of one shape");
}

// u = x + residual, rounded to the dtype in which the stream is stored, as the kernels do.
void add(Matrix& x, const Matrix& residual) {
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double sum = double{x.values[i]} + residual.values[i];
    x.values[i] = static_cast<float>(headnorm::round_to_dtype(sum, residual.dtype));
  }
}

double mean_square(const Matrix& u, std::int64_t row, std::int64_t first, std::int64_t count) {
  double sum = 0;
  for (std::int64_t column = first; column < first + count; ++column) sum += double{u.at(row, column)} * u.at(row, column);
  return sum / static_cast<double>(count);
}

struct HeadMeans {
  double share = 0, row_inv_rms = 0, row_size = 0, head_inv_rms = 0, head_size = 0;
};

// Means over the rows, per head.
std::vector<HeadMeans> measure_heads(const Matrix& u, std::int64_t head_size) {
  const std::int64_t heads = u.width / head_size;
  std::vector<HeadMeans> means(static_cast<std::size_t>(heads));
  const double weight = 1.0 / static_cast<double>(u.rows);
  for (std::int64_t row = 0; row < u.rows; ++row) {
    const double row_square = mean_square(u, row, 0, u.width);
    const double row_inv_rms = 1 / std::sqrt(row_square + kEps);
    for (std::int64_t head = 0; head < heads; ++head) {
      const double square = mean_square(u, row, head * head_size, head_size);
      const double inv_rms = 1 / std::sqrt(square + kEps);
      HeadMeans& mean = means[static_cast<std::size_t>(head)];
      mean.share += row_square > 0 ? weight * square / (row_square * static_cast<double>(heads)) : 0;
      mean.row_inv_rms += weight * row_inv_rms;
      mean.row_size += weight * std::sqrt(square) * row_inv_rms;
      mean.head_inv_rms += weight * inv_rms;
      mean.head_size += weight * std::sqrt(square) * inv_rms;
    }
  }
  return means;
}

void print_picture(const Matrix& u, std::int64_t head_size) {
  fmt::print("{} rows of {} channels, {} heads of {}; means over the rows. 'size' is the RMS of a head after normalising.\n\n",
             u.rows, u.width, u.width / head_size, head_size);
  fmt::print("       share of   one RMS for the row    one RMS per head\n");
  fmt::print("head     energy     1/RMS       size     1/RMS       size\n");
  std::int64_t head = 0;
  for (const HeadMeans& mean : measure_heads(u, head_size)) {
    const std::string bar(static_cast<std::size_t>(std::lround(mean.share * 40)), '#');
    fmt::print("{:4} {:9.1f}% {:9.4f} {:10.4f} {:9.4f} {:10.4f}  {}\n", head++, 100 * mean.share, mean.row_inv_rms, mean.row_size,
               mean.head_inv_rms, mean.head_size, bar);
  }
}

// Distance of the doubles that a dtype can represent, around `value`.
double ulp(double value, Dtype dtype) {
  const int digits = dtype == Dtype::f32 ? 24 : dtype == Dtype::bf16 ? 8 : 11;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - digits);
}

void print_error(const Matrix& u, const Matrix& y, std::int64_t head_size) {
  double worst = 0, worst_expected = 0;
  std::int64_t worst_row = 0, worst_column = 0, changed = 0;
  for (std::int64_t row = 0; row < u.rows; ++row) {
    double inv_rms = 0;
    for (std::int64_t column = 0; column < u.width; ++column) {
      if (column % head_size == 0) inv_rms = 1 / std::sqrt(mean_square(u, row, column, head_size) + kEps);
      const double expected = u.at(row, column) * inv_rms;
      const double distance = std::abs(y.at(row, column) - expected) / ulp(expected, y.dtype);
      const double error = std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
      changed += y.at(row, column) != headnorm::round_to_dtype(expected, y.dtype);
      if (error <= worst) continue;
      worst = error, worst_expected = expected, worst_row = row, worst_column = column;
    }
  }
  const auto values = static_cast<double>(u.rows * u.width);
  fmt::print("against double precision: largest error {:.3f} ulp of {} (0.5 is a perfect rounding), at row {}, channel {}:\n",
             worst, headnorm::to_text(y.dtype), worst_row, worst_column);
  fmt::print("{:.9g}, exactly {:.9g}; {:.4f} % of the values are not the nearest {} number\n", y.at(worst_row, worst_column),
             worst_expected, 100 * static_cast<double>(changed) / values, headnorm::to_text(y.dtype));
}

struct Options {
  std::int64_t head_size = 256;
  std::string x;
  std::optional<std::string> residual, y;
};

Result<void> run(const Options& options) {
  HEADNORM_TRY(Matrix u, read_matrix(options.x));
  if (u.width % options.head_size != 0) {
    return headnorm::user_error(fmt::format("head size {} does not divide the width {}", options.head_size, u.width),
                                "give a divisor of the width as --head-size");
  }
  if (options.residual) {
    HEADNORM_TRY(const Matrix residual, read_matrix(*options.residual));
    HEADNORM_CHECK(check_same_shape(u, residual, *options.residual));
    add(u, residual);
  }
  if (!options.y) return print_picture(u, options.head_size), Result<void>();
  HEADNORM_TRY(const Matrix y, read_matrix(*options.y));
  HEADNORM_CHECK(check_same_shape(u, y, *options.y));
  print_error(u, y, options.head_size);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("How a batch's energy spreads over its heads; or, with --y, how exact a kernel's output is.");
  Options options;
  app.add_option("--x", options.x, "the input, .npy")->required();
  app.add_option("--residual", options.residual, "the residual stream that is added to it, .npy");
  app.add_option("--y", options.y, "the output of a kernel with gamma 1: print its error instead of the picture");
  app.add_option("--head-size", options.head_size, "channels of a head")->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto done = run(options);
  if (done) return 0;
  fmt::print(stderr, "{}\n{}\n", done.error().message, done.error().remedy);
  return 1;
}
