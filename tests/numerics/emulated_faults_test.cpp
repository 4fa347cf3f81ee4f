// What GPU kernels compute and touch at the edges, on the emulator with all its checks: large offsets, alignment, strides,
// aliasing, zeros, NaN, many heads and rows, wide rows, batches, and the barriers between reductions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "generator/generator.h"
#include "tests/support/emulator_launch.h"
#include "tests/support/host_runner.h"

namespace headnorm::test {
namespace {

const Target kTarget = make_gpu_target(90);

Plan default_plan(const std::string& spec, const Target& target = kTarget) {
  const KernelSpec parsed = *parse_spec(spec);
  return *make_plan(parsed, default_schedule(parsed, target), target);
}

std::vector<Plan> plans_of(const std::string& spec) { return plans_of_all_residencies(*parse_spec(spec), kTarget); }

class EmulatedFaults : public testing::Test {
 protected:
  static LaunchTensors seeded(const KernelSpec& spec, std::int64_t rows, const Layout& layout) {
    LaunchTensors tensors(spec, rows, layout);
    Random random(test_seed());
    RowValues values;
    fill_random_weights(random, spec, values);
    tensors.set_weights(values);
    for (std::int64_t row = 0; row < rows; ++row) {
      fill_random_row(random, spec, values);
      tensors.set_row(row, values);
    }
    tensors.seal();
    return tensors;
  }

  void run(const Plan& plan, LaunchTensors& tensors) { ASSERT_EQ(run_serving_plan(*backend_, plan, tensors), ""); }

  LaunchTensors run_seeded(const Plan& plan, std::int64_t rows, const Layout& layout = {}) {
    SCOPED_TRACE(to_text(plan.spec) + " " + to_text(plan.schedule) + " " + to_text(layout));
    LaunchTensors tensors = seeded(plan.spec, rows, layout);
    run(plan, tensors);
    return tensors;
  }

  void expect_right(const Plan& plan, std::int64_t rows) {
    SCOPED_TRACE(to_text(plan.spec) + " " + to_text(plan.schedule));
    LaunchTensors tensors = seeded(plan.spec, rows, {});
    std::vector<RowValues> inputs;
    for (std::int64_t row = 0; row < rows; ++row) inputs.push_back(tensors.inputs(row));
    run(plan, tensors);
    if (HasFatalFailure()) return;
    for (std::int64_t row = 0; row < rows; ++row)
      ASSERT_EQ(check_row(plan, tensors, row, inputs[static_cast<std::size_t>(row)]), "");
  }

  std::unique_ptr<CodegenBackend> backend_ = make_llvm_backend();
};

struct LargeShape {
  const char* name;
  const char* spec;
  std::int64_t stride, rows;
};

// Runs the blocks of the first and of the last rows alone, of rows that are zero but for the last, which is one. "" or what is
// wrong.
std::string run_ends(const Plan& plan, const Artifact& artifact, const LargeShape& shape) {
  constexpr std::uint64_t kNearStart = std::uint64_t{1} << 20;
  const auto width = static_cast<std::uint64_t>(plan.spec.width);
  const std::int64_t tile_rows = plan.gpu().rows_per_tile, last = shape.rows - 1;
  const auto bytes = static_cast<std::uint64_t>(last * shape.stride) * 2 + width * 2;
  const std::uint16_t one = plan.spec.x_dtype == Dtype::f16 ? f16_from_float(1) : bf16_from_float(1);
  const std::vector<std::uint16_t> ones(width, one), zeros(width, 0);

  emulator::Device device(emulator::Model::h200);
  const std::uint64_t x = device.allocate(bytes), gamma = device.allocate(width * 2), y = device.allocate(bytes);
  const auto place = [&](std::uint64_t base, std::int64_t row) {
    return base + static_cast<std::uint64_t>(row * shape.stride * 2);
  };
  bool written = device.write(gamma, ones.data(), width * 2);
  for (std::int64_t row = 0; row < tile_rows; ++row) written = written && device.write(place(x, row), zeros.data(), width * 2);
  for (std::int64_t row = last / tile_rows * tile_rows; row <= last; ++row)
    written = written && device.write(place(x, row), row == last ? ones.data() : zeros.data(), width * 2);
  if (!written) return "no memory for the operands";

  const auto module = device.load(artifact.bytes);
  if (!module.ok()) return module.message();
  const auto stride = static_cast<std::uint64_t>(shape.stride), rows = static_cast<std::uint64_t>(shape.rows);
  const auto parameters = emulator::pack_parameters((*module)->facts(artifact.entry), {x, gamma, y, stride, stride, rows});
  const auto tiles = static_cast<std::uint64_t>(tile_count(plan, shape.rows)),
             tiles_per_row = static_cast<std::uint64_t>(plan.gpu().tiles_per_row);
  emulator::LaunchShape launch;
  launch.grid.x = static_cast<std::uint32_t>(tiles);
  launch.block.x = static_cast<std::uint32_t>(plan.gpu().block_threads);
  launch.dynamic_shared_bytes = static_cast<std::uint64_t>(plan.gpu().dynamic_shared_bytes);
  const auto run_blocks = [&](std::uint64_t first, std::uint64_t end) {
    emulator::LaunchOptions options;
    options.blocks = {{first, end}};
    const emulator::LaunchResult result = device.launch(**module, artifact.entry, launch, parameters, options);
    return result.fault ? to_text(*result.fault) : "";
  };
  const auto row_of_y = [&](std::int64_t row) {
    std::vector<std::uint16_t> values(width, 9);
    return device.read(values.data(), place(y, row), width * 2) ? values : std::vector<std::uint16_t>();
  };

  if (const std::string fault = run_blocks(tiles - tiles_per_row, tiles); !fault.empty()) return fault;
  std::vector<std::uint8_t> start(kNearStart, 9);
  if (!device.read(start.data(), y, kNearStart)) return "the start of y cannot be read";
  if (start != std::vector<std::uint8_t>(kNearStart, 0)) return "the last blocks wrote near the start of y";
  if (const std::string fault = run_blocks(0, tiles_per_row); !fault.empty()) return fault;
  if (row_of_y(0) != zeros) return "row 0 is wrong";
  if (row_of_y(last - 1) != zeros) return "the row before the last is wrong";
  return row_of_y(last) == ones ? "" : "the last row is wrong";
}

// The last row lies past 2^31 elements, and its byte offset past 2^32: cut to 32 bits, either points near the start.
class EmulatedLargeOffsets : public testing::TestWithParam<LargeShape> {};

TEST_P(EmulatedLargeOffsets, LastRowIsReadAndWrittenWhereItIs) {
  const auto backend = make_llvm_backend();
  for (const Plan& plan : plans_of(GetParam().spec)) {
    SCOPED_TRACE(to_text(plan.schedule));
    const Result<Artifact> artifact = backend->compile(plan);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(run_ends(plan, *artifact, GetParam()), "");
  }
}

// What kernels that count in 32 bits do: the product of row and stride, with or without the place in the row, cut to an int, or its
// bytes to an unsigned int. Each such place of the PTX is changed alone.
std::vector<std::string> with_offsets_cut(const std::string& ptx) {
  std::vector<std::string> changed;
  const std::regex product(R"((?:mul|mad)\.lo\.s64 \t(%rd\d+), [^;]*;)");
  for (std::sregex_iterator found(ptx.begin(), ptx.end(), product), end; found != end; ++found) {
    const std::string offset = (*found)[1];
    const auto behind = static_cast<std::size_t>(found->position() + found->length());
    changed.push_back(ptx);
    changed.back().insert(behind, fmt::format(" shl.b64 {0}, {0}, 32; shr.s64 {0}, {0}, 32;", offset));
    const std::regex in_bytes(fmt::format(R"(shl\.b64 \t(%rd\d+), {}, 1;)", offset));
    std::smatch bytes;
    if (!std::regex_search(ptx, bytes, in_bytes)) continue;
    changed.push_back(ptx);
    changed.back().insert(static_cast<std::size_t>(bytes.position() + bytes.length()),
                          fmt::format(" and.b64 {0}, {0}, 0xffffffff;", bytes[1].str()));
  }
  return changed;
}

TEST_P(EmulatedLargeOffsets, AnyOffsetThatIsCutTo32BitsIsFound) {
  const Plan plan = default_plan(GetParam().spec);
  const Result<Artifact> artifact = make_llvm_backend()->compile(plan);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::vector<std::string> mutants = with_offsets_cut(artifact->bytes);
  ASSERT_GE(mutants.size(), 4u) << "the offsets of x and of y, each in elements and in bytes:\n" << artifact->bytes;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    Artifact mutant = *artifact;
    mutant.bytes = mutants[i];
    EXPECT_NE(run_ends(plan, mutant, GetParam()), "") << "mutant " << i << " is not found:\n" << mutant.bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedLargeOffsets,
                         testing::Values(LargeShape{"F16Width512", "width=512,head_size=512,x=f16,y=f16,weight=channel:f16", 512,
                                                    4'194'305},
                                         LargeShape{"Bf16Width4096", "width=4096,head_size=4096", 4096, 1'048'641},
                                         LargeShape{"Bf16Heads", "width=4096,head_size=256", 4096, 1'048'641},
                                         LargeShape{"StrideProduct", "width=128,head_size=64", (1 << 20) + 8, 2049}),
                         [](const auto& instance) { return instance.param.name; });

// Canaries stand around every row.
TEST_F(EmulatedFaults, TheTailOfAnOddWidthStaysInItsRow) {
  for (int width : {1, 2, 3, 5, 7, 17, 31, 33, 127, 129, 767, 769, 1000, 1001, 4095, 4097, 8191}) {
    for (const char* dtype : {"bf16", "f32"}) {
      Layout gaps;
      gaps.stride(Operand::x) = gaps.stride(Operand::y) = width + 64 / size_bytes(*parse_dtype(dtype));
      for (const Plan& plan : plans_of(fmt::format("width={0},head_size={0},x={1},y={1},weight=channel:{1}", width, dtype))) {
        expect_right(plan, 7);
        LaunchTensors dense = run_seeded(plan, 7), apart = run_seeded(plan, 7, gaps);
        if (HasFatalFailure()) return;
        ASSERT_TRUE(same_outputs(dense, apart)) << to_text(plan.schedule);
      }
    }
  }
}

constexpr const char* kAllOperands = "width={},head_size=256,residual=add:bf16,gate=seednorm";

TEST_F(EmulatedFaults, MisalignedPointersAndStridesAreBitEqual) {
  for (const Plan& plan : plans_of(fmt::format(kAllOperands, 4096))) {
    LaunchTensors aligned = run_seeded(plan, 2);
    for (Operand operand : kOperands) {
      std::vector<Layout> layouts;
      for (std::int64_t offset : {2, 4, 8}) layouts.emplace_back().offset(operand) = offset;
      if (is_row_operand(operand)) layouts.emplace_back().stride(operand) = 4097;
      for (const Layout& layout : layouts) {
        LaunchTensors moved = run_seeded(plan, 2, layout);
        if (HasFatalFailure()) return;
        ASSERT_TRUE(same_outputs(aligned, moved)) << to_text(plan.schedule) << " " << to_text(operand) << " " << to_text(layout);
      }
    }
  }
}

TEST_F(EmulatedFaults, EveryTensorHasItsOwnStride) {
  Layout layout;
  layout.stride(Operand::x) = 3 * 768;
  layout.stride(Operand::residual) = 768;
  layout.stride(Operand::y) = 768 + 8;
  layout.stride(Operand::residual_out) = 2 * 768 + 64;
  for (const Plan& plan : plans_of(fmt::format(kAllOperands, 768))) {
    LaunchTensors dense = run_seeded(plan, 5), strided = run_seeded(plan, 5, layout);
    EXPECT_TRUE(same_outputs(dense, strided)) << to_text(plan.schedule);
    expect_right(plan, 5);
  }
}

TEST_F(EmulatedFaults, OutputsOverInputsAreBitEqual) {
  for (const char* dtype : {"bf16", "f32"}) {
    const std::string spec =
        fmt::format("width=16384,head_size=256,x={0},y={0},weight=channel:{0},residual=add:{0},gate=seednorm", dtype);
    for (const Plan& plan : plans_of(spec)) {
      LaunchTensors apart = run_seeded(plan, 3);
      for (Alias alias : {Alias::y_over_x, Alias::residual_out_over_residual, Alias::residual_out_over_x, Alias::inplace}) {
        Layout layout;
        layout.alias = alias;
        LaunchTensors together = run_seeded(plan, 3, layout);
        if (HasFatalFailure()) return;
        ASSERT_TRUE(same_outputs(apart, together)) << to_text(plan.schedule) << " " << to_text(alias);
      }
    }
  }
}

TEST_F(EmulatedFaults, ZeroRowsOfInputAreZeroAndWithoutEpsNan) {
  for (const char* eps : {"1e-06", "0"}) {
    for (const Plan& plan : plans_of(fmt::format("width=768,head_size=256,x=f32,y=f32,weight=none,eps={}", eps))) {
      LaunchTensors tensors(plan.spec, 3, {});
      for (std::int64_t row = 0; row < 3; ++row) tensors.tensor(Operand::x).set_row(row, std::vector<double>(768, 0));
      tensors.seal();
      run(plan, tensors);
      for (std::int64_t row = 0; row < 3; ++row) {
        for (double y : tensors.tensor(Operand::y).row(row)) ASSERT_TRUE(plan.spec.eps > 0 ? y == 0 : std::isnan(y)) << y;
      }
    }
  }
}

TEST_F(EmulatedFaults, MoreHeadsThanSixteenBitsCount) {
  expect_right(default_plan(fmt::format("width={},head_size=8", 8 * 65536)), 2);
}

TEST_F(EmulatedFaults, MoreRowsThanSixteenBitsCount) {
  constexpr std::int64_t kRows = 70000, kPattern = 7;
  const Plan plan = default_plan("width=64,head_size=64");
  LaunchTensors tensors = seeded(plan.spec, kRows, {});
  for (std::int64_t row = kPattern; row < kRows; ++row) tensors.set_row(row, tensors.inputs(row % kPattern));
  tensors.seal();
  run(plan, tensors);
  for (std::int64_t row = 0; row < kPattern; ++row) ASSERT_EQ(check_row(plan, tensors, row, tensors.inputs(row)), "");
  const Tensor& y = tensors.tensor(Operand::y);
  for (std::int64_t row = kPattern; row < kRows; ++row) ASSERT_EQ(y.row_bytes(row), y.row_bytes(row % kPattern)) << row;
}

// Right, or refused at once with the limit; also where a block has 99 KB.
TEST_F(EmulatedFaults, WideFusedRows) {
  for (int sm : {90, 120}) {
    for (std::int64_t width : {12288, 65536, 262144, 1048576}) {
      const std::string spec = fmt::format("width={0},head_size={0},x=f32,y=f32,weight=channel:f32,residual=add:f32", width);
      expect_right(default_plan(spec, make_gpu_target(sm)), 1);
      if (HasFatalFailure()) return;
      const auto shared =
          make_plan(*parse_spec(spec), *parse_schedule("lanes=256,vector=4,residency=shared,groups=1,rows=1"), make_gpu_target(sm));
      const std::int64_t limit = (sm == 90 ? 227 : 99) * 1024;
      ASSERT_EQ(shared.ok(), width * 4 < limit) << width << " on sm_" << sm;
      if (shared.ok()) expect_right(*shared, 1);
      if (!shared.ok()) {
        EXPECT_NE(shared.error().message.find(fmt::to_string(limit)), std::string::npos) << shared.error().message;
      }
    }
  }
}

// 64 elements in the registers of each of 1,024 threads: there are not so many registers, and nothing is launched.
TEST_F(EmulatedFaults, RegistersPastTheLimitAreRefusedBeforeTheLaunch) {
  const auto refused = make_plan(*parse_spec("width=65536,head_size=65536,x=f32,y=f32,weight=none"),
                                 *parse_schedule("lanes=1024,vector=4,residency=registers,block=1024"), kTarget);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("register"), std::string::npos) << refused.error().message;
}

TEST_F(EmulatedFaults, ANanStaysInItsHead) {
  constexpr std::int64_t kRows = 9, kHeadSize = 80, kRow = 3, kHead = 1;
  for (const char* gate : {"", ",gate=seednorm"}) {
    for (const Plan& plan : plans_of(fmt::format("width=320,head_size=80,residual=add:bf16{}", gate))) {
      SCOPED_TRACE(to_text(plan.spec) + " " + to_text(plan.schedule));
      LaunchTensors clean = run_seeded(plan, kRows), spoilt = seeded(plan.spec, kRows, {});
      spoilt.tensor(Operand::x).set(kRow, kHead * kHeadSize + 7, std::numeric_limits<double>::quiet_NaN());
      spoilt.seal();
      run(plan, spoilt);
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::vector<double> expected = clean.tensor(Operand::y).row(row), y = spoilt.tensor(Operand::y).row(row);
        for (std::int64_t i = 0; i < plan.spec.width; ++i) {
          const auto at = static_cast<std::size_t>(i);
          ASSERT_TRUE(row == kRow && i / kHeadSize == kHead ? std::isnan(y[at]) : y[at] == expected[at]) << row << " " << i;
        }
      }
    }
  }
}

TEST_F(EmulatedFaults, AlphaZeroIsBitEqualToNoGate) {
  for (const char* dtype : {"bf16", "f32"}) {
    for (int seed_heads : {1, 4}) {
      const std::string spec = fmt::format("width=256,head_size=64,x={0},y={0},weight=channel:{0}", dtype);
      const auto plan_of = [](const std::string& text) {
        return *make_plan(*parse_spec(text), *parse_schedule("lanes=8,vector=4"), kTarget);
      };
      const Plan gated = plan_of(fmt::format("{},gate=seednorm,seed_heads={}", spec, seed_heads)), plain = plan_of(spec);
      RowValues values = seeded(gated.spec, 1, {}).inputs(0);
      values[static_cast<std::size_t>(Operand::alpha)].assign(256, 0);
      LaunchTensors with_gate(gated.spec, 1, {}), without(plain.spec, 1, {});
      for (LaunchTensors* tensors : {&with_gate, &without}) {
        tensors->set_weights(values);
        tensors->set_row(0, values);
        tensors->seal();
      }
      run(gated, with_gate);
      run(plain, without);
      ASSERT_TRUE(same_outputs(without, with_gate)) << to_text(gated.spec);
    }
  }
}

TEST_F(EmulatedFaults, ARowIsBitEqualAtAnyPlaceInAnyBatch) {
  const Plan plan = default_plan("width=256,head_size=64,gate=seednorm,mode=batch-invariant");
  LaunchTensors alone = run_seeded(plan, 1);
  const RowValues tested = alone.inputs(0);
  const std::vector<std::byte> expected = alone.tensor(Operand::y).row_bytes(0);
  for (std::int64_t rows : {2, 255, 256, 257, 4096}) {
    LaunchTensors batch = seeded(plan.spec, rows, {});
    for (std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1}) batch.set_row(row, tested);
    batch.set_weights(tested);
    batch.seal();
    run(plan, batch);
    for (std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1})
      ASSERT_EQ(batch.tensor(Operand::y).row_bytes(row), expected) << row << " of " << rows;
  }
}

// Two reductions in turn, in blocks that take one tile after another.
class EmulatedBarriers : public EmulatedFaults {
 protected:
  static constexpr std::int64_t kRows = 9, kBlocks = 2;
  const Plan plan_ = *make_plan(*parse_spec("width=576,head_size=144,x=f16,y=bf16,residual=add:f32,gate=seednorm,seed_heads=1"),
                                *parse_schedule("lanes=16,vector=4,rows=1,grid=persistent"), kTarget);
};

TEST_F(EmulatedBarriers, ThreeOrdersOfWarpsGiveTheSameBitsWithoutARace) {
  const Artifact artifact = *backend_->compile(plan_);
  LaunchTensors first = seeded(plan_.spec, kRows, {});
  const auto ran = run_emulated(artifact, plan_, first, {}, kBlocks);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_GT(ran->barriers, 0u);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    emulator::LaunchOptions options;
    options.order = seed == 0 ? emulator::Order::reverse : emulator::Order::random;
    options.seed = seed;
    LaunchTensors other = seeded(plan_.spec, kRows, {});
    const auto again = run_emulated(artifact, plan_, other, options, kBlocks);
    ASSERT_TRUE(again.ok()) << again.error().message;
    ASSERT_TRUE(same_outputs(first, other)) << "order " << seed;
  }
}

TEST_F(EmulatedBarriers, AnyBarrierThatIsTakenOutIsMissed) {
  const Artifact whole = *backend_->compile(plan_);
  emulator::LaunchOptions options;
  options.checks.initialised_memory = emulator::Check::off;  // which else notices the first of them first
  int barriers = 0;
  for (std::size_t at = whole.bytes.find("bar.sync"); at != std::string::npos; at = whole.bytes.find("bar.sync", at + 1)) {
    ++barriers;
    Artifact without = whole;
    without.bytes.erase(at, without.bytes.find(';', at) + 1 - at);
    LaunchTensors tensors = seeded(plan_.spec, kRows, {});
    const auto ran = run_emulated(without, plan_, tensors, options, kBlocks);
    ASSERT_FALSE(ran.ok()) << "barrier " << barriers << " is not missed";
    EXPECT_NE(ran.error().message.find("rule: race"), std::string::npos) << ran.error().message;
  }
  EXPECT_GE(barriers, 2);
}

}  // namespace
}  // namespace headnorm::test
