#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {
namespace self_test {

// ---- what is computed --------------------------------------------------------------------------------------------------------------

enum class Weight { none, channel, shared, head };
enum class Sigma { tanh, sigmoid, softsign, hardtanh };

{{spec}}
constexpr int kHeads = kWidth / kHeadSize, kSeedSize = kWidth / kSeedHeads;

// ---- numbers of each type: rounding to nearest even ----------------------------------------------------------------------------------

struct Format {
  int bytes, bits, min_exponent;  // significant bits, exponent of the smallest normal number
};
{{formats}}constexpr int kF16Bits = 11;

double ulp_of(double value, Format format) {
  const int exponent = value == 0 ? format.min_exponent : std::ilogb(value);
  return std::ldexp(1.0, (exponent < format.min_exponent ? format.min_exponent : exponent) - format.bits + 1);
}

double round_to(double value, Format format) {
  if (!std::isfinite(value) || value == 0) return value;
  const double ulp = ulp_of(value, format);
  return std::nearbyint(value / ulp) * ulp;
}

// `value` is one of the format's numbers, and finite.
void put(unsigned char* to, double value, Format format) {
  const float number = static_cast<float>(value);
  unsigned bits;
  std::memcpy(&bits, &number, 4);
  unsigned short half = static_cast<unsigned short>(bits >> 16);  // bf16
  if (format.bits == kF16Bits) {
    const unsigned sign = bits >> 16 & 0x8000u;
    const double size = std::fabs(value);
    const unsigned magnitude = size < 0x1p-14 ? static_cast<unsigned>(size * 0x1p24) : ((bits & 0x7fffffffu) - 0x38000000u) >> 13;
    half = static_cast<unsigned short>(sign | magnitude);
  }
  if (format.bytes == 4)
    std::memcpy(to, &bits, 4);
  else
    std::memcpy(to, &half, 2);
}

double get(const unsigned char* from, Format format) {
  unsigned bits = 0;
  std::memcpy(&bits, from, format.bytes);
  if (format.bits == kF16Bits) {
    const unsigned exponent = bits >> 10 & 31u, mantissa = bits & 1023u;
    const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
    if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024.0, static_cast<int>(exponent) - 25));
  }
  if (format.bytes == 2) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// ---- a tensor on both sides ----------------------------------------------------------------------------------------------------------

struct Tensor {
  Format format;
  std::vector<unsigned char> bytes;
  void* device = nullptr;

  Tensor(long long elements, Format of) : format(of), bytes(static_cast<std::size_t>(elements * of.bytes), 0xff) {}
  double at(long long i) const { return get(&bytes[static_cast<std::size_t>(i * format.bytes)], format); }
  void set(long long i, double value) { put(&bytes[static_cast<std::size_t>(i * format.bytes)], round_to(value, format), format); }
};

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAIL: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}

void upload(Tensor& tensor) {
  check(cudaMalloc(&tensor.device, tensor.bytes.size()), "cudaMalloc");
  check(cudaMemcpy(tensor.device, tensor.bytes.data(), tensor.bytes.size(), cudaMemcpyHostToDevice), "copy to the device");
}

void download(Tensor& tensor) {
  check(cudaMemcpy(tensor.bytes.data(), tensor.device, tensor.bytes.size(), cudaMemcpyDeviceToHost), "copy from the device");
  check(cudaFree(tensor.device), "cudaFree");
}

// ---- random data: normal numbers, and every 97th of them a hundred times larger --------------------------------------------------------

unsigned long long random_state = 20260607;

double uniform() {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<double>((random_state >> 33) + 1) * 0x1p-31;
}

double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()); }

// ---- the formula, in double ----------------------------------------------------------------------------------------------------------

double sigma(double z) {
  switch (kSigma) {
    case Sigma::tanh:
      return std::tanh(z);
    case Sigma::sigmoid:
      return 1 / (1 + std::exp(-z));
    case Sigma::softsign:
      return z / (1 + std::fabs(z));
    default:
      return z < -1 ? -1 : z > 1 ? 1 : z;
  }
}

// A value and how far f32 arithmetic may be from it.
struct Bounded {
  double value, error;
};

constexpr double kUnit = 0x1p-24;  // half an ulp of f32

struct Row {
  const Tensor &x, &residual, &gamma, &alpha, &beta;
  long long start;                // of the row in x and residual
  std::vector<Bounded> u, inv_rms, s;  // by channel, head and seed head

  void find_u() {
    for (int i = 0; i < kWidth; ++i) {
      double value = x.at(start + i), error = 0;
      if (kHasResidual) {
        const double scaled = kResidualScale * residual.at(start + i);
        value += scaled;
        error = kUnit * (std::fabs(value) + (kResidualScale == 1 ? 0 : std::fabs(scaled)));
        if (kNormTakesRounded) {
          const double exact = value;
          value = round_to(static_cast<float>(exact), kResidualFormat);
          error = round_to(exact - error, kResidualFormat) == round_to(exact + error, kResidualFormat)
                      ? 0
                      : ulp_of(exact, kResidualFormat);
        }
      }
      u.push_back({value, error});
    }
  }

  void find_inv_rms() {
    for (int head = 0; head < kHeads; ++head) {
      double sum = 0, error = 0;
      for (int i = head * kHeadSize; i < (head + 1) * kHeadSize; ++i) {
        sum += u[i].value * u[i].value;
        error += 2 * std::fabs(u[i].value) * u[i].error;
      }
      const double mean = sum / kHeadSize + kEps, value = 1 / std::sqrt(mean);
      error = (error + kHeadAdditions * kUnit * sum) / kHeadSize + 4 * kUnit * mean;
      inv_rms.push_back({value, value * (0.5 * error / mean * (1 + error / mean) + 0x1.2p-23)});
    }
  }

  void find_s() {
    for (int seed = 0; seed < kSeedHeads && kHasGate; ++seed) {
      double dot = 0, size = 0, error = 0;
      for (int i = seed * kSeedSize; i < (seed + 1) * kSeedSize; ++i) {
        dot += u[i].value * beta.at(i);
        size += std::fabs(u[i].value * beta.at(i));
        error += u[i].error * std::fabs(beta.at(i));
      }
      const double z = kSeedScale * dot;
      error = std::fabs(kSeedScale) * (error + kSeedAdditions * kUnit * size) + 2 * kUnit * std::fabs(z);
      const double low = sigma(z - error), high = sigma(z + error), value = sigma(z);
      s.push_back({value, std::fmax(high - value, value - low) + 4e-7 * std::fmax(std::fabs(low), std::fabs(high))});
    }
  }

  Bounded gain(int i) const {
    double value = kWeight == Weight::none      ? 1
                   : kWeight == Weight::channel ? gamma.at(i)
                   : kWeight == Weight::shared  ? gamma.at(i % kHeadSize)
                                                : gamma.at(i / kHeadSize);
    value += kWeightOffset;
    double error = kUnit * std::fabs(value);
    if (kHasGate) {
      const Bounded& gate = s[i / kSeedSize];
      value += gate.value * alpha.at(i);
      error += std::fabs(alpha.at(i)) * gate.error + kUnit * std::fabs(value);
    }
    return {value, error};
  }

  Bounded y(int i) const {
    const Bounded &inv = inv_rms[i / kHeadSize], g = gain(i);
    double n = u[i].value * inv.value;
    double error = u[i].error * inv.value + std::fabs(u[i].value) * inv.error + kUnit * std::fabs(n);
    if (kRoundsBeforeGain) {
      const double low = round_to(n - error, kXFormat), high = round_to(n + error, kXFormat);
      n = round_to(n, kXFormat);
      error = std::fmax(high - n, n - low);
    }
    return {n * g.value, error * (std::fabs(g.value) + g.error) + std::fabs(n) * g.error + kUnit * std::fabs(n * g.value)};
  }
};

// ---- comparing -----------------------------------------------------------------------------------------------------------------------

struct Worst {
  double error = 0, of_bound = 0;  // largest distance, and largest part of what is allowed
};

// Rounding is monotone: right is what lies between the rounded ends of the interval.
void compare(double stored, const Bounded& exact, Format format, Worst& worst) {
  const double allowed = exact.error + 0.5 * ulp_of(std::fabs(exact.value) + exact.error, format);
  const double distance = std::fabs(stored - exact.value);
  worst.error = std::fmax(worst.error, distance);
  const bool is_right = round_to(exact.value - exact.error, format) <= stored && stored <= round_to(exact.value + exact.error, format);
  worst.of_bound = std::fmax(worst.of_bound, is_right ? std::fmin(1.0, distance / allowed) : 2.0);
  if (std::isnan(stored)) worst.of_bound = INFINITY;
}

int run() {
  constexpr long long kRows = {{rows}};
  Tensor x(kRows * kWidth, kXFormat), residual(kRows * kWidth, kResidualFormat), gamma(kWidth, kWeightFormat);
  Tensor alpha(kWidth, kWeightFormat), beta(kWidth, kWeightFormat);
  Tensor y(kRows * kWidth, kYFormat), residual_out(kRows * kWidth, kResidualFormat);
  for (long long i = 0; i < kRows * kWidth; ++i) {
    x.set(i, normal() * (i % 97 == 5 ? 100 : 1));
    residual.set(i, normal());
  }
  for (int i = 0; i < kWidth; ++i) {
    gamma.set(i, 1 - kWeightOffset + 0.2 * normal());
    alpha.set(i, normal());
    beta.set(i, normal() / std::sqrt(static_cast<double>(kSeedSize)));
  }
  for (Tensor* tensor : {&x, &residual, &gamma, &alpha, &beta, &y, &residual_out}) upload(*tensor);
  const cudaError_t launched = {{entry}}_launch(
      {{arguments}});
  check(launched, "launch");
  check(cudaDeviceSynchronize(), "run");
  Tensor *const y_tensor = &{{y_tensor}}, *const u_tensor = &{{u_tensor}};
  const Tensor x_before = x, residual_before = residual;
  for (Tensor* tensor : {&x, &residual, &gamma, &alpha, &beta, &y, &residual_out}) download(*tensor);

  Worst worst_y, worst_u;
  for (long long row = 0; row < kRows; ++row) {
    Row exact{x_before, residual_before, gamma, alpha, beta, row * kWidth, {}, {}, {}};
    exact.find_u();
    exact.find_inv_rms();
    exact.find_s();
    for (int i = 0; i < kWidth; ++i) {
      compare(y_tensor->at(row * kWidth + i), exact.y(i), kYFormat, worst_y);
      if (!kHasResidual) continue;
      Bounded u = exact.u[i];
      if (!kNormTakesRounded) u.error += 2 * kUnit * std::fabs(u.value);
      compare(u_tensor->at(row * kWidth + i), u, kResidualFormat, worst_u);
    }
  }
  std::printf("y: max error %g, %.2f of the bound\n", worst_y.error, worst_y.of_bound);
  if (kHasResidual) std::printf("residual_out: max error %g, %.2f of the bound\n", worst_u.error, worst_u.of_bound);
  const bool passed = worst_y.of_bound <= 1 && worst_u.of_bound <= 1;
  std::printf("%s\n", passed ? "PASS" : "FAIL");
  return passed ? 0 : 1;
}

}  // namespace self_test
}  // namespace

int main() { return self_test::run(); }
