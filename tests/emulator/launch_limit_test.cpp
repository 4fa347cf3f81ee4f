// Launches that a device cannot do are refused before anything runs, with the limit.
#include "tests/emulator/run_ptx.h"

namespace headnorm::emulator::test {
namespace {

struct Refused {
  const char* name;
  LaunchShape shape;
  const char* words;
  Model model = Model::h200;
  const char* directives = "";
};

LaunchShape shape3(Dim3 grid, Dim3 block, Dim3 cluster = {0, 0, 0}, std::uint64_t shared = 0) {
  return {grid, block, cluster, shared};
}

TEST(LaunchLimits, AreThoseOfTheDeviceAndTheKernel) {
  const Refused rows[] = {
      {"threads", shape3({1}, {1025}), "block (1025,1,1)"},
      {"threads in all", shape3({1}, {1024, 2}), "2048 threads in a block"},
      {"block in z", shape3({1}, {1, 1, 65}), "block (1,1,65)"},
      {"empty block", shape3({1}, {0}), "no thread"},
      {"empty grid", shape3({0}, {1}), "no block"},
      {"grid in y", shape3({1, 65536}, {1}), "grid (1,65536,1)"},
      {"grid in z", shape3({1, 1, 65536}, {1}), "grid (1,1,65536)"},
      {".maxntid", shape3({1}, {129}), "128 at most (.maxntid)", Model::h200, ".maxntid 128"},
      {".reqntid", shape3({1}, {64}), "requires (128,1,1)", Model::h200, ".reqntid 128"},
      {"shared memory", shape3({1}, {32}, {0, 0, 0}, 227 * 1024 + 1), "232449 bytes of shared memory"},
      {"shared memory of a smaller device", shape3({1}, {32}, {0, 0, 0}, 164 * 1024), "bytes of shared memory", Model::a100},
      {"cluster on a device without", shape3({2}, {32}, {2, 1, 1}), "has no clusters", Model::a100},
      {"cluster too large", shape3({32}, {32}, {32, 1, 1}), "16 at most"},
      {"cluster that does not divide the grid", shape3({3}, {32}, {2, 1, 1}), "not a multiple of the cluster"},
      {"cluster other than the kernel's", shape3({4}, {32}, {2, 1, 1}), "requires (4,1,1)", Model::h200,
       ".explicitcluster .reqnctapercluster 4, 1, 1"},
  };
  for (const Refused& row : rows) {
    Bench bench(row.model);
    const char* target = row.model == Model::a100 ? "sm_80" : "sm_90";
    const LaunchResult result = bench.run(kernel_text(0, "", row.directives, target), {}, row.shape);
    EXPECT_EQ(unlike(result, Rule::launch_limit, ""), "") << row.name;
    EXPECT_NE(fault_text(result).find(row.words), std::string::npos) << row.name << ": " << fault_text(result);
    EXPECT_EQ(result.counters.blocks, 0u);
  }
}

TEST(LaunchLimits, WhatJustFitsRuns) {
  for (const Refused& row : {
           Refused{"threads", shape3({1}, {1024}), ""},
           Refused{"threads in three extents", shape3({1}, {2, 8, 64}), ""},
           Refused{"grid in y", shape3({1, 65535}, {1}), ""},
           Refused{".maxntid", shape3({1}, {128}), "", Model::h200, ".maxntid 128"},
           Refused{"shared memory", shape3({1}, {32}, {0, 0, 0}, 227 * 1024), ""},
           Refused{"cluster", shape3({8}, {32}, {8, 1, 1}), ""},
       }) {
    Bench bench(row.model);
    EXPECT_EQ(fault_text(bench.run(kernel_text(0, "", row.directives, "sm_90"), {}, row.shape)), "") << row.name;
  }
}

TEST(LaunchLimits, ParametersAreCounted) {
  Bench bench;
  const auto ptx = [](int bytes, const char* version) {
    return fmt::format(".version {}\n.target sm_90\n.address_size 64\n.visible .entry k(.param .align 8 .b8 p[{}])\n{{\nret;\n}}\n",
                       version, bytes);
  };
  EXPECT_EQ(unlike(bench.run(ptx(4104, "8.0"), {}, shape_of(1, 32)), Rule::launch_limit, ""), "");
  EXPECT_EQ(fault_text(bench.run(ptx(4096, "8.0"), {}, shape_of(1, 32))), "");
  EXPECT_EQ(fault_text(bench.run(ptx(4104, "8.1"), {}, shape_of(1, 32))), "");
  const auto module = bench.device.load(ptx(16, "8.0"));
  ASSERT_TRUE(module.ok());
  EXPECT_TRUE(bench.device.launch(**module, "k", shape_of(1, 32), std::vector<std::uint8_t>(8)).fault.has_value())
      << "too few bytes";
  EXPECT_TRUE(bench.device.launch(**module, "other", shape_of(1, 32), std::vector<std::uint8_t>(16)).fault.has_value());
}

TEST(Models, NamesSayThatTheyAreEmulated) {
  for (Model model : all_models()) {
    EXPECT_NE(std::string(device_model(model).name).find("(emulated)"), std::string::npos);
    EXPECT_EQ(parse_model(device_model(model).slug), model);
  }
  EXPECT_EQ(parse_model("h100"), std::nullopt);
}

}  // namespace
}  // namespace headnorm::emulator::test
