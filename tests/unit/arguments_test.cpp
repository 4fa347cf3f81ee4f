// The rules of a launch: check_arguments and satisfies_alignment. No memory is touched.
#include <gtest/gtest.h>

#include <tuple>

#include "runtime/device.h"

namespace headnorm {
namespace {

constexpr std::uintptr_t kBase = std::uintptr_t{1} << 32;  // operands are 16 GiB apart

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

KernelSpec spec_with_residual() {
  KernelSpec spec;
  spec.width = 4096;
  spec.head_size = 256;
  spec.residual = Residual::add;
  return spec;
}

LaunchArguments apart(const KernelSpec& spec, std::int64_t rows) {
  LaunchArguments arguments;
  arguments.rows = rows;
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand)) continue;
    arguments.address(operand) = at(kBase * (1 + static_cast<std::uintptr_t>(operand)) * 4);
    arguments.stride(operand) = spec.width;
  }
  return arguments;
}

TEST(CheckArguments, NamesANullAddress) {
  const KernelSpec spec = spec_with_residual();
  for (Operand operand : kOperands) {
    LaunchArguments arguments = apart(spec, 2);
    arguments.address(operand) = nullptr;
    const auto checked = check_arguments(spec, arguments);
    EXPECT_EQ(checked.ok(), !has_operand(spec, operand)) << to_text(operand);
    if (!checked.ok()) {
      EXPECT_EQ(checked.error().message.find(to_text(operand)), 0u) << checked.error().message;
    }
  }
}

TEST(CheckArguments, ZeroRowsNeedNothing) {
  EXPECT_TRUE(check_arguments(spec_with_residual(), {}).ok());
  LaunchArguments negative;
  negative.rows = -1;
  EXPECT_FALSE(check_arguments(spec_with_residual(), negative).ok());
}

TEST(CheckArguments, RowsMayNotOverlap) {
  const KernelSpec spec = spec_with_residual();
  LaunchArguments arguments = apart(spec, 2);
  arguments.stride(Operand::residual) = spec.width - 1;
  EXPECT_FALSE(check_arguments(spec, arguments).ok());
  arguments.rows = 1;
  EXPECT_TRUE(check_arguments(spec, arguments).ok()) << "one row has no stride";
  arguments.rows = 2;
  arguments.stride(Operand::residual) = -spec.width;
  EXPECT_FALSE(check_arguments(spec, arguments).ok());
}

TEST(CheckArguments, RowsMayNotEndBeyondTheAddressSpace) {
  const KernelSpec spec = spec_with_residual();
  LaunchArguments arguments = apart(spec, std::int64_t{1} << 62);
  EXPECT_FALSE(check_arguments(spec, arguments).ok());
  arguments = apart(spec, 2);
  arguments.stride(Operand::x) = std::int64_t{1} << 62;
  EXPECT_FALSE(check_arguments(spec, arguments).ok());
}

TEST(CheckArguments, InPlaceIsAllowedWhereTheKernelReadsBeforeItWrites) {
  const KernelSpec spec = spec_with_residual();
  struct Case {
    Operand output, other;
    bool allowed;
  };
  for (const Case& c : {Case{Operand::y, Operand::x, true}, Case{Operand::residual_out, Operand::residual, true},
                        Case{Operand::residual_out, Operand::x, true}, Case{Operand::y, Operand::residual, false},
                        Case{Operand::y, Operand::residual_out, false}, Case{Operand::y, Operand::gamma, false}}) {
    LaunchArguments arguments = apart(spec, 16);
    arguments.address(c.output) = arguments.address(c.other);
    EXPECT_EQ(check_arguments(spec, arguments).ok(), c.allowed) << to_text(c.output) << " = " << to_text(c.other);
    arguments.address(c.output) = at(reinterpret_cast<std::uintptr_t>(arguments.address(c.other)) + 2);
    EXPECT_FALSE(check_arguments(spec, arguments).ok()) << "shifted by an element";
  }
  LaunchArguments arguments = apart(spec, 16);
  arguments.address(Operand::x) = arguments.address(Operand::residual);
  EXPECT_TRUE(check_arguments(spec, arguments).ok()) << "inputs may be one tensor";
}

TEST(CheckArguments, InPlaceNeedsOneStrideAndDtype) {
  KernelSpec spec = spec_with_residual();
  LaunchArguments arguments = apart(spec, 16);
  arguments.address(Operand::y) = arguments.address(Operand::x);
  arguments.stride(Operand::y) = spec.width + 8;
  EXPECT_FALSE(check_arguments(spec, arguments).ok());
  arguments.stride(Operand::y) = spec.width;
  EXPECT_TRUE(check_arguments(spec, arguments).ok());
  spec.y_dtype = Dtype::f32;
  EXPECT_FALSE(check_arguments(spec, arguments).ok());
}

TEST(CheckArguments, SlicesOfOneTensorAreApart) {
  const KernelSpec spec = spec_with_residual();
  const std::uintptr_t row = 3 * 4096 * 2;  // bytes of a row of three slices
  LaunchArguments arguments = apart(spec, 1000);
  arguments.stride(Operand::x) = arguments.stride(Operand::y) = 3 * spec.width;
  arguments.address(Operand::x) = at(kBase);
  for (std::uintptr_t column : {std::uintptr_t{4096 * 2}, std::uintptr_t{2 * 4096 * 2}}) {
    arguments.address(Operand::y) = at(kBase + column);
    EXPECT_TRUE(check_arguments(spec, arguments).ok()) << column;
    arguments.address(Operand::y) = at(kBase - row + column);  // the same slice, one row earlier
    EXPECT_TRUE(check_arguments(spec, arguments).ok()) << column;
    arguments.address(Operand::y) = at(kBase + column - 2);
    EXPECT_EQ(check_arguments(spec, arguments).ok(), column != 4096 * 2) << column;
    arguments.address(Operand::y) = at(kBase + column + 2);
    EXPECT_EQ(check_arguments(spec, arguments).ok(), column == 4096 * 2) << column;
  }
}

TEST(Alignment, HostAsksItOfOutputsOnly) {
  const KernelSpec spec = spec_with_residual();
  HostSchedule schedule;
  schedule.store = StoreKind::nt;
  const auto plan = make_plan(spec, schedule, make_host_target(HostIsa::x86_64_v4));
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->host().y_alignment, 64);
  const LaunchArguments aligned = apart(spec, 2);
  EXPECT_TRUE(satisfies_alignment(*plan, aligned));
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand)) continue;
    LaunchArguments shifted = aligned, longer = aligned;
    shifted.address(operand) = at(reinterpret_cast<std::uintptr_t>(aligned.address(operand)) + 32);
    longer.stride(operand) += 16;
    EXPECT_EQ(satisfies_alignment(*plan, shifted), !is_output(operand)) << to_text(operand);
    EXPECT_EQ(satisfies_alignment(*plan, longer), !is_output(operand)) << to_text(operand);
    longer.rows = 1;
    EXPECT_TRUE(satisfies_alignment(*plan, longer)) << to_text(operand);
  }
  const auto unaligned = make_plan(spec, unaligned_schedule(*plan), plan->target);
  ASSERT_TRUE(unaligned.ok());
  LaunchArguments odd = aligned;
  odd.address(Operand::y) = at(kBase + 1);
  EXPECT_TRUE(satisfies_alignment(*unaligned, odd));
}

// Rows of 208 bf16 are no whole number of the 64 bytes that the f32 output beside them needs: they must not be held to them.
TEST(Alignment, HostAsksOfEachOutputWhatItsOwnStoresNeed) {
  KernelSpec spec = spec_with_residual();
  spec.width = 208;
  spec.head_size = 104;
  spec.x_dtype = spec.residual_dtype = Dtype::f32;
  HostSchedule schedule;
  schedule.form = HostForm::split;
  schedule.heads = 2;
  schedule.store = StoreKind::nt;
  const auto plan = make_plan(spec, schedule, make_host_target(HostIsa::x86_64_v4));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(alignment_bytes(*plan, Operand::y), 32);
  EXPECT_EQ(alignment_bytes(*plan, Operand::residual_out), 64);
  EXPECT_EQ(alignment_bytes(*plan, Operand::x), 1);
  const LaunchArguments contiguous = apart(spec, 7);
  EXPECT_TRUE(satisfies_alignment(*plan, contiguous));
  for (const auto& [operand, bytes, fits] :
       {std::tuple{Operand::y, 32, true}, {Operand::y, 16, false}, {Operand::residual_out, 32, false}}) {
    LaunchArguments shifted = contiguous;
    shifted.address(operand) =
        at(reinterpret_cast<std::uintptr_t>(contiguous.address(operand)) + static_cast<std::uintptr_t>(bytes));
    EXPECT_EQ(satisfies_alignment(*plan, shifted), fits) << to_text(operand) << " + " << bytes;
  }
}

TEST(Alignment, GpuAsksItOfEveryOperandButNeverSplitsAnElement) {
  KernelSpec spec = spec_with_residual();
  spec.weight_dtype = Dtype::f32;
  const auto plan = make_plan(spec, default_schedule(spec, make_gpu_target(90)), make_gpu_target(90));
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->gpu().access_bytes, 16);
  const auto unaligned = make_plan(spec, unaligned_schedule(*plan), plan->target);
  ASSERT_TRUE(unaligned.ok());
  const LaunchArguments aligned = apart(spec, 2);
  EXPECT_TRUE(satisfies_alignment(*plan, aligned));
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand)) continue;
    LaunchArguments shifted = aligned;
    shifted.address(operand) = at(reinterpret_cast<std::uintptr_t>(aligned.address(operand)) + 2);
    EXPECT_FALSE(satisfies_alignment(*plan, shifted)) << to_text(operand);
    EXPECT_EQ(satisfies_alignment(*unaligned, shifted), operand_dtype(spec, operand) == Dtype::bf16) << to_text(operand);
  }
}

}  // namespace
}  // namespace headnorm
