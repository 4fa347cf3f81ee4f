// What host kernels read and write: large offsets, tails, alignment, strides, aliasing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "runtime/host/elf_loader.h"
#include "tests/support/host_runner.h"

namespace headnorm::test {
namespace {

// Address space of any size, zero, of which only touched pages take memory.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes)
      : bytes_(bytes), address_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~SparseMemory() {
    if (is_mapped()) munmap(address_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  bool is_mapped() const { return address_ != MAP_FAILED; }
  std::uint16_t* elements() { return static_cast<std::uint16_t*>(address_); }

 private:
  std::size_t bytes_;
  void* address_;
};

struct LargeShape {
  Dtype dtype;
  std::int64_t width, head_size, stride, rows;
};

// The last row lies past 2^31 elements, and its byte offset past 2^32: cut to 32 bits, either points near the start.
class HostLargeOffsets : public testing::TestWithParam<LargeShape> {};

TEST_P(HostLargeOffsets, LastRowIsReadAndWrittenWhereItIs) {
  const LargeShape shape = GetParam();
  constexpr std::int64_t kNearStart = std::int64_t{1} << 20;
  const auto bytes = static_cast<std::size_t>(((shape.rows - 1) * shape.stride + shape.width) * 2);
  SparseMemory x(bytes);
  ASSERT_TRUE(x.is_mapped());
  const std::int64_t last = shape.rows - 1;
  const std::uint16_t one = shape.dtype == Dtype::f16 ? f16_from_float(1) : bf16_from_float(1);
  std::fill_n(x.elements() + last * shape.stride, shape.width, one);
  std::vector<std::uint16_t> gamma(static_cast<std::size_t>(shape.width), one);

  KernelSpec spec;
  spec.width = shape.width;
  spec.head_size = shape.head_size;
  spec.x_dtype = spec.y_dtype = spec.weight_dtype = shape.dtype;
  HostRunner runner;
  for (const Plan& plan : plans_of_all_forms(*make_spec(spec), detect_host_isa())) {
    SCOPED_TRACE(to_text(plan.schedule));
    SparseMemory y(bytes);
    ASSERT_TRUE(y.is_mapped());
    const auto artifact = runner.backend().compile(plan);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const auto image = host::load_elf_object(artifact->bytes, artifact->entry);
    ASSERT_TRUE(image.ok()) << image.error().message;
    const auto kernel = reinterpret_cast<HostKernel>(image->entry);
    void* const pointers[] = {x.elements(), gamma.data(), y.elements()};
    const std::int64_t strides[] = {shape.stride, shape.stride};

    kernel(pointers, strides, last, last + 1);
    const auto is = [](std::uint16_t value) { return [value](std::uint16_t element) { return element == value; }; };
    EXPECT_TRUE(std::all_of(y.elements(), y.elements() + kNearStart, is(0)));
    kernel(pointers, strides, 0, 1);
    EXPECT_TRUE(std::all_of(y.elements(), y.elements() + kNearStart, is(0)));
    EXPECT_TRUE(std::all_of(y.elements() + last * shape.stride - shape.width, y.elements() + last * shape.stride, is(0)));
    EXPECT_TRUE(std::all_of(y.elements() + last * shape.stride, y.elements() + last * shape.stride + shape.width, is(one)));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HostLargeOffsets,
                         testing::Values(LargeShape{Dtype::f16, 512, 512, 512, 4'194'305},
                                         LargeShape{Dtype::bf16, 4096, 4096, 4096, 1'048'641},
                                         LargeShape{Dtype::bf16, 4096, 256, 4096, 1'048'641},
                                         LargeShape{Dtype::bf16, 128, 64, (1 << 20) + 8, 2049}),
                         [](const auto& instance) {
                           const LargeShape& shape = instance.param;
                           return fmt::format("{}_width{}_head{}_stride{}_rows{}", to_text(shape.dtype), shape.width,
                                              shape.head_size, shape.stride, shape.rows);
                         });

class HostOddWidths : public testing::TestWithParam<std::int64_t> {};

TEST_P(HostOddWidths, TailStaysInItsRow) {
  HostRunner runner;
  Random random(test_seed());
  KernelSpec spec;
  spec.width = spec.head_size = GetParam();
  for (Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    spec.x_dtype = spec.y_dtype = spec.weight_dtype = dtype;
    Layout gaps;
    gaps.stride(Operand::x) = gaps.stride(Operand::y) = spec.width + 64 / size_bytes(dtype);
    for (HostIsa isa : supported_isas()) {
      for (const Plan& plan : plans_of_all_forms(*make_spec(spec), isa)) {
        SCOPED_TRACE(to_text(plan.target) + " " + to_text(plan.schedule) + " " + to_text(dtype));
        for (const Layout& layout : {Layout{}, gaps}) run_random_rows(runner, plan, 7, layout, random);
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, HostOddWidths,
                         testing::Values(1, 2, 3, 5, 7, 17, 31, 33, 127, 129, 767, 769, 1000, 4095, 4097, 8191));

KernelSpec spec_of_all_operands(std::int64_t width, Dtype dtype) {
  KernelSpec spec;
  spec.width = width;
  spec.head_size = 256;
  spec.x_dtype = spec.y_dtype = spec.weight_dtype = spec.residual_dtype = dtype;
  spec.residual = Residual::add;
  spec.gate = Gate::seednorm;
  spec.seed_heads = spec.heads();
  return *make_spec(spec);
}

// Weights and rows of one seed in tensors of `layout`, after a run.
LaunchTensors run_seeded(HostRunner& runner, const Plan& plan, std::int64_t rows, const Layout& layout) {
  LaunchTensors tensors(plan.spec, rows, layout);
  Random random(test_seed());
  RowValues values;
  fill_random_weights(random, plan.spec, values);
  tensors.set_weights(values);
  for (std::int64_t row = 0; row < rows; ++row) {
    fill_random_row(random, plan.spec, values);
    tensors.set_row(row, values);
  }
  runner.run(plan, tensors);
  return tensors;
}

void expect_same_outputs(LaunchTensors& a, LaunchTensors& b) {
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    for (Operand operand : {Operand::y, Operand::residual_out}) {
      if (!has_operand(a.spec(), operand)) continue;
      ASSERT_EQ(a.tensor(operand).row_bytes(row), b.tensor(operand).row_bytes(row)) << to_text(operand) << " row " << row;
    }
  }
}

TEST(HostAlignment, MisalignedPointersAndStridesAreBitEqual) {
  HostRunner runner;
  const KernelSpec spec = spec_of_all_operands(4096, Dtype::bf16);
  for (HostIsa isa : supported_isas()) {
    for (const Plan& plan : plans_of_all_forms(spec, isa)) {
      LaunchTensors aligned = run_seeded(runner, plan, 3, {});
      for (Operand operand : kOperands) {
        SCOPED_TRACE(to_text(plan.target) + " " + to_text(plan.schedule) + " " + to_text(operand));
        for (std::int64_t offset : {2, 4, 8}) {
          Layout layout;
          layout.offset(operand) = offset;
          LaunchTensors moved = run_seeded(runner, plan, 3, layout);
          expect_same_outputs(aligned, moved);
        }
        if (!is_row_operand(operand)) continue;
        Layout layout;
        layout.stride(operand) = 4097;
        LaunchTensors strided = run_seeded(runner, plan, 3, layout);
        expect_same_outputs(aligned, strided);
      }
      if (HasFailure()) return;
    }
  }
}

TEST(HostStrides, EveryTensorHasItsOwn) {
  HostRunner runner;
  Random random(test_seed());
  const KernelSpec spec = spec_of_all_operands(768, Dtype::bf16);
  Layout layout;
  layout.stride(Operand::x) = 3 * spec.width;
  layout.stride(Operand::residual) = spec.width;
  layout.stride(Operand::y) = spec.width + 8;
  layout.stride(Operand::residual_out) = 2 * spec.width + 64;
  for (HostIsa isa : supported_isas()) {
    for (const Plan& plan : plans_of_all_forms(spec, isa)) {
      SCOPED_TRACE(to_text(plan.target) + " " + to_text(plan.schedule));
      run_random_rows(runner, plan, 6, layout, random);
    }
  }
}

// Lines that run over several heads, and a last tile of fewer.
class HostTiles : public testing::TestWithParam<std::int64_t> {
 protected:
  KernelSpec spec(Dtype dtype) const {
    KernelSpec spec;
    spec.head_size = GetParam();
    spec.width = 21 * spec.head_size;
    spec.x_dtype = spec.y_dtype = spec.weight_dtype = dtype;
    return *make_spec(spec);
  }
};

TEST_P(HostTiles, StayInTheirRowAtAnyAlignment) {
  HostRunner runner;
  Random random(test_seed());
  for (Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    Layout gaps;
    gaps.stride(Operand::x) = gaps.stride(Operand::y) = spec(dtype).width + 64 / size_bytes(dtype) + 1;
    gaps.offset(Operand::x) = 2;
    gaps.offset(Operand::y) = 6;
    for (HostIsa isa : supported_isas()) {
      for (const Plan& plan : plans_of_all_forms(spec(dtype), isa)) {
        if (plan.host_schedule().rsqrt != RsqrtForm::exact) continue;  // addresses are the same with any root
        SCOPED_TRACE(to_text(plan.target) + " " + to_text(plan.schedule) + " " + to_text(dtype));
        run_random_rows(runner, plan, 3, gaps, random);
        LaunchTensors aligned = run_seeded(runner, plan, 3, {}), moved = run_seeded(runner, plan, 3, gaps);
        expect_same_outputs(aligned, moved);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(HostTiles, BlocksOfAnySizeAreBitEqual) {
  HostRunner runner;
  for (HostIsa isa : supported_isas()) {
    HostSchedule schedule;
    schedule.heads = 4;
    schedule.store = StoreKind::plain;
    LaunchTensors rows = run_seeded(runner, *make_plan(spec(Dtype::bf16), schedule, make_host_target(isa)), 5, {});
    schedule.block_bytes = 1;
    const Plan narrow = *make_plan(spec(Dtype::bf16), schedule, make_host_target(isa));
    EXPECT_EQ(narrow.host().groups_per_block, narrow.host().tile_parts);
    LaunchTensors tiles = run_seeded(runner, narrow, 5, {});
    expect_same_outputs(rows, tiles);
  }
}

INSTANTIATE_TEST_SUITE_P(HeadSizes, HostTiles, testing::Values(1, 2, 3, 8, 12, 24, 40, 72));

class HostAliasing : public testing::TestWithParam<Dtype> {};

TEST_P(HostAliasing, OutputsOverInputsAreBitEqual) {
  HostRunner runner;
  const KernelSpec spec = spec_of_all_operands(16384, GetParam());
  for (HostIsa isa : supported_isas()) {
    for (const Plan& plan : plans_of_all_forms(spec, isa)) {
      if (plan.host_schedule().rsqrt != RsqrtForm::exact) continue;  // the order of accesses is the same with any root
      LaunchTensors apart = run_seeded(runner, plan, 3, {});
      for (Alias alias : {Alias::y_over_x, Alias::residual_out_over_residual, Alias::residual_out_over_x, Alias::inplace}) {
        SCOPED_TRACE(to_text(plan.target) + " " + to_text(plan.schedule) + " " + to_text(alias));
        Layout layout;
        layout.alias = alias;
        LaunchTensors together = run_seeded(runner, plan, 3, layout);
        expect_same_outputs(apart, together);
      }
      if (HasFailure()) return;
    }
  }
}

TEST_P(HostAliasing, XMayBeTheResidual) {
  HostRunner runner;
  const KernelSpec spec = spec_of_all_operands(16384, GetParam());
  for (const Plan& plan : plans_of_all_forms(spec, detect_host_isa())) {
    SCOPED_TRACE(to_text(plan.schedule));
    LaunchTensors tensors = run_seeded(runner, plan, 2, {});
    LaunchArguments arguments = tensors.arguments();
    arguments.address(Operand::residual) = arguments.address(Operand::x);
    const auto kernel = runner.kernel(runner.serving_plan(plan, tensors));
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto launched = runner.device().launch(**kernel, arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    for (std::int64_t row = 0; row < 2; ++row) {
      RowValues inputs = tensors.inputs(row);
      inputs[static_cast<std::size_t>(Operand::residual)] = inputs[static_cast<std::size_t>(Operand::x)];
      EXPECT_EQ(check_row(plan, tensors, row, inputs), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, HostAliasing, testing::Values(Dtype::bf16, Dtype::f32),
                         [](const auto& instance) { return std::string(to_text(instance.param)); });

}  // namespace
}  // namespace headnorm::test
