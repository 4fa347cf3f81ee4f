// Runs one instruction on many vectors of operands, each against a value computed apart.
#pragma once

#include <functional>
#include <random>

#include "tests/emulator/run_ptx.h"

namespace headnorm::emulator::test {

using Words = std::vector<std::uint64_t>;
using Reference = std::function<std::uint64_t(std::uint64_t, std::uint64_t, std::uint64_t)>;

enum class Domain : std::uint8_t {
  integer16,
  integer32,
  integer64,
  f32,
  f64,
  f16,
  bf16,
  small
};  // small: 0 to 70, for shift counts

struct OperationRow {
  std::string text;  // of registers %a, %b, %c to %z, as one instruction without ';', or several
  int result_bytes = 4;
  std::vector<Domain> sources;
  Reference reference;
  std::string target = "sm_80", version = "8.0";
};

inline int bytes_of(Domain domain) {
  return domain == Domain::integer16 || domain == Domain::f16 || domain == Domain::bf16 ? 2
         : domain == Domain::integer64 || domain == Domain::f64                         ? 8
                                                                                        : 4;
}

inline Words edges(Domain domain) {
  switch (domain) {
    case Domain::integer16:
      return {0, 1, 2, 3, 7, 15, 16, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
    case Domain::integer32:
      return {0,    1,      2,       3,          5,          31,         32,         33,         0x7f,
              0xff, 0xffff, 0x10000, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
    case Domain::integer64:
      return {0,
              1,
              2,
              63,
              64,
              0xffffffff,
              0x100000000,
              0x7fffffffffffffff,
              0x8000000000000000,
              0x8000000000000001,
              0xfffffffffffffffe,
              0xffffffffffffffff,
              0x7fffffffffffffc0};
    case Domain::f32:
      return {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x3f800000, 0xbf800000,
              0x3f800001, 0x3f7fffff, 0x3f000000, 0x3fc00000, 0x40200000, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f800000,
              0x477fe000, 0x477ff000, 0x477fefff, 0x33000000, 0x33000001, 0x3f801000, 0x3f808000, 0x3f818000, 0x7f7fffff,
              0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x5f000000, 0x43000000, 0xc3000000};
    case Domain::f64:
      return {0,
              0x8000000000000000,
              1,
              0x0010000000000000,
              0x3ff0000000000000,
              0xbff0000000000000,
              0x3ff0000000000001,
              0x7fefffffffffffff,
              0x7ff0000000000000,
              0xfff0000000000000,
              0x41dfffffffc00000,
              0x41e0000000000000,
              0xc1e0000000000000,
              0x43e0000000000000,
              0x3fe0000000000000,
              0x4004000000000000,
              0x36a0000000000000,
              0x47efffffe0000000,
              0x47effffff0000000};
    case Domain::f16:
      return {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x3c00, 0xbc00, 0x3c01, 0x3bff,
              0x3800, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x4200, 0x0200, 0x8400};
    case Domain::bf16:
      return {0,      0x8000, 1,      0x8001, 0x7f,   0x80,   0x3f80, 0xbf80, 0x3f81, 0x3f7f,
              0x3f00, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x4040, 0x0040, 0x2000};
    case Domain::small:
      return {0, 1, 2, 15, 16, 17, 30, 31, 32, 33, 63, 64, 65, 255, 256, 0xffffffff};
  }
  return {};
}

constexpr std::size_t kVectors = 2048;  // each operation

inline std::uint64_t random_value(Domain domain, std::mt19937_64& random) {
  const Words special = edges(domain);
  if (random() % 8 == 0) return special[random() % special.size()];
  if (domain == Domain::small) return random() % 70;
  const int bits = 8 * bytes_of(domain);
  std::uint64_t value = random();
  if (random() % 2 == 0) {  // numbers near 1, where sums and products meet
    if (domain == Domain::f32) value = (value & 0x83ffffff) | (0x3c000000 + (random() & 0x04000000));
    if (domain == Domain::f64) value = (value & 0x803fffffffffffff) | 0x3fc0000000000000;
    if (domain == Domain::bf16) value = (value & 0x83ff) | 0x3c00;
    if (domain == Domain::integer32 || domain == Domain::integer64) value >>= random() % static_cast<std::uint64_t>(bits);
  }
  return bits == 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}

// All pairs of edges first, then random operands with edges among them.
inline std::vector<Words> vectors_for(const std::vector<Domain>& sources, std::mt19937_64& random) {
  std::vector<Words> vectors(3, Words(kVectors, 0));
  for (std::size_t i = 0; i < kVectors; ++i) {
    for (std::size_t k = 0; k < sources.size(); ++k) {
      const Words special = edges(sources[k]);
      const std::size_t pairs =
          sources.size() == 1 ? special.size() : special.size() * edges(sources[sources.size() > 1 ? 1 : 0]).size();
      const std::size_t of_first = edges(sources[0]).size();
      if (i < pairs && k < 2) {
        vectors[k][i] = k == 0 ? edges(sources[0])[i % of_first] : special[i / of_first % special.size()];
      } else {
        vectors[k][i] = random_value(sources[k], random);
      }
    }
  }
  return vectors;
}

inline std::string operation_kernel(const OperationRow& row) {
  const char* names[] = {"%a", "%b", "%c"};
  std::string body = "mov.u32 %r0, %ctaid.x; mad.lo.u32 %r0, %r0, 256, %t; mul.wide.u32 %d0, %r0, 8;\n";
  std::string registers = fmt::format(".reg .b{} %z;", 8 * row.result_bytes);
  for (std::size_t k = 0; k < row.sources.size(); ++k) {
    const int bits = 8 * bytes_of(row.sources[k]);
    registers += fmt::format(" .reg .b{} {};", bits, names[k]);
    body += fmt::format("add.u64 %d1, %p{}, %d0; ld.global.b{} {}, [%d1];\n", k, bits, names[k]);
  }
  body += row.text + ";\n";
  body += fmt::format("add.u64 %d1, %p3, %d0; st.global.b{} [%d1], %z;\n", 8 * row.result_bytes);
  return kernel_text(4, registers + "\n" + body, "", row.target, row.version);
}

inline void check_operation(const OperationRow& row, const LaunchOptions& options = {}) {
  SCOPED_TRACE(row.text);
  std::mt19937_64 random(std::hash<std::string>()(row.text));
  const std::vector<Words> vectors = vectors_for(row.sources, random);
  Bench bench(row.target == "sm_80" ? Model::a100 : row.target == "sm_90" ? Model::h200 : Model::b200);
  std::vector<std::uint64_t> parameters;
  for (const Words& vector : vectors) parameters.push_back(bench.buffer_of(vector));
  parameters.push_back(bench.buffer(8 * kVectors));
  const LaunchResult result = bench.run(operation_kernel(row), parameters, shape_of(kVectors / 256, 256), options);
  ASSERT_EQ(fault_text(result), "");
  const Words got = bench.values<std::uint64_t>(parameters[3], kVectors);
  for (std::size_t i = 0; i < kVectors; ++i) {
    const std::uint64_t expected = row.reference(vectors[0][i], vectors[1][i], vectors[2][i]);
    ASSERT_EQ(fmt::format("{:#x}", got[i]), fmt::format("{:#x}", expected))
        << fmt::format("of {:#x}, {:#x}, {:#x}", vectors[0][i], vectors[1][i], vectors[2][i]);
  }
}

}  // namespace headnorm::emulator::test
