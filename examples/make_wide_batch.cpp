// Writes a batch such as a wide transformer produces: normal random values, and a few channels far above the rest.
//
// The outlier channels are the same in every row and lie in two neighbouring heads of 256 channels, as observed in trained
// transformers: a handful of fixed channels, tens to hundreds of times the typical magnitude.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <random>
#include <string>

#include "cli/files.h"
#include "cli/npy.h"
#include "core/dtype.h"

namespace {

struct Outlier {
  std::int64_t channel;
  float magnitude;
};
constexpr std::array<Outlier, 4> kOutliers{{{70, 180.0f}, {133, -60.0f}, {200, 90.0f}, {301, 45.0f}}};

std::string make_batch(std::int64_t rows, std::int64_t width, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::string bytes(static_cast<std::size_t>(rows * width) * 2, '\0');
  const auto store = [&](std::int64_t row, std::int64_t column, float value) {
    headnorm::store_element(bytes.data() + (row * width + column) * 2, headnorm::Dtype::bf16, value);
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < width; ++column) store(row, column, normal(random));
    for (const Outlier& outlier : kOutliers) {
      if (outlier.channel < width) store(row, outlier.channel, outlier.magnitude * (1.0f + 0.1f * normal(random)));
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes a bf16 batch with outlier channels as an .npy file.");
  std::int64_t rows = 1576, width = 4096;
  unsigned seed = 1;
  std::string output;
  app.add_option("--rows", rows, "rows (tokens)")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--width", width, "channels of a row")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed, "of the random numbers")->capture_default_str();
  app.add_option("--output", output, "the file to write")->required();
  CLI11_PARSE(app, argc, argv);

  const std::string file = headnorm::cli::npy_header(headnorm::Dtype::bf16, {rows, width}) + make_batch(rows, width, seed);
  const auto written = headnorm::cli::write_file(output, file);
  if (!written) {
    fmt::print(stderr, "{}\n{}\n", written.error().message, written.error().remedy);
    return 1;
  }
  fmt::print("{}: {} rows of {} channels, {:.1f} MB\n", output, rows, width, static_cast<double>(file.size()) / 1e6);
  return 0;
}
