// What the parser takes, and what it says about text that it does not take: always with the line.
#include "emulator/ptx/parser.h"

#include <gtest/gtest.h>

#include "emulator/emulator.h"
#include "tests/emulator/run_ptx.h"

namespace headnorm::emulator::test {
namespace {

std::string load_message(const std::string& ptx, Model model = Model::h200) {
  Device device(model);
  const auto module = device.load(ptx);
  return module.ok() ? "" : module.message();
}

TEST(Parser, TakesTheDialectsOfLlvmAndNvcc) {
  const std::string text = R"(
// comment
.version 8.0
.target sm_90a, debug
.address_size 64
.file 1 "a file.cu"
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 4 .b8 table[8] = {1, 2, 3, 0xff};
.const .align 8 .f32 weights[2] = {0f3F800000, 2.5};
.extern .shared .align 16 .b8 dynamic[];
	// .globl k
.visible .entry k(
	.param .u64 .ptr .global .align 4 k_param_0,
	.param .align 8 .b8 k_param_1[24]
)
.maxntid 128
.minnctapersm 2
{
	.reg .pred 	%p<3>;
	.reg.b32 %r<5>; .reg .f32 %f1, %f2;
	.reg .b64 	%rd<4>;
	.shared .align 16 .b8 tile[512]; /* two
lines */
	.loc 1 4 2
	.pragma "nounroll";
	ld.param.b64 %rd1, [k_param_0];
	mov.b32 %f1, 0f00000000;
	{ .reg .pred p; .reg .b32 %r1; setp.eq.b32 p, %r2, -1; @!p bra LAB; mov.u32 %r1, %tid.x; LAB: }
	ld.global.b32 %r2, [%rd1+-8];
$L__BB0_3:
	bra.uni $L__BB0_4;
$L__BB0_4:
	ret;
}
)";
  const Outcome<ptx::Module> module = ptx::parse_module(text);
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_EQ(module->version, 80);
  EXPECT_EQ(module->target, "sm_90a");
  ASSERT_EQ(module->variables.size(), 3u);
  EXPECT_EQ(module->variables[0].initial, (std::vector<std::uint8_t>{1, 2, 3, 255, 0, 0, 0, 0}));
  EXPECT_EQ(module->variables[1].initial[6], 0x20);  // 2.5 is 0x40200000
  EXPECT_TRUE(module->variables[2].is_dynamic);
  const ptx::Kernel& kernel = module->kernels.at(0);
  EXPECT_EQ(kernel.max_threads[0], 128u);
  EXPECT_EQ(kernel.parameters.at(1).bytes, 24u);
  EXPECT_EQ(kernel.variables.at(0).bytes, 512u);
  EXPECT_EQ(kernel.code.at(5).text, "ld.global.b32 %r2, [%rd1+-8]");
  EXPECT_EQ(kernel.code.at(5).operands.at(1).offset, -8);
  EXPECT_NE(kernel.code.at(4).operands.at(0).reg, kernel.code.at(5).operands.at(0).reg) << "the inner %r1 is a register of its own";
}

struct Refused {
  const char* body;
  const char* message;
};

TEST(Parser, RefusesWhatItDoesNotKnowWithTheLine) {
  for (const Refused& row : {
           Refused{"frobnicate.u32 %r1, %r2;", "line 9: 'frobnicate.u32 %r1, %r2': instruction 'frobnicate' is not known"},
           Refused{"add.sideways.u32 %r1, %r2, %r3;", "modifier '.sideways' is not known here"},
           Refused{"add.u32 %r1, %r2;", "2 operands are not expected"},
           Refused{"add.u32 %r1, %r2, %r99;", "special register or register '%r99' is not known"},
           Refused{"add.u32 %r1, %r2, nothing;", "'nothing' is not declared"},
           Refused{"add.u32 %r1, %d2, %r3;", "register %d2 is .b64, which does not fit .u32"},
           Refused{"add.f32 %r1, %r2, 3;", "an integer is given where a floating-point number belongs"},
           Refused{"add %r1, %r2, %r3;", "the instruction names no type"},
           Refused{"bra NOWHERE;", "there is no label 'NOWHERE'"},
           Refused{"call.uni f;", "call is not supported"},
           Refused{"mov.u32 %r1, %nonsense;", "'%nonsense' is not known"},
           Refused{".texref t;", "directive '.texref' in a kernel is not known"},
           Refused{"ld.global.f32 %r1, %d1;", "an address in brackets is expected"},
           Refused{"ld.global.v4.f32 {%r1, %r2}, [%d1];", "the number of values is not the vector's"},
           Refused{"cp.async.cg.shared.global [%r1], [%d1], 8;", "cp.async.cg 16"},
           Refused{"div.f32 %r1, %r2, %r3;", "a division names .rn"},
           Refused{"add.sat.f32x2 %d1, %d2, %d3;", "the type is not supported"},
           Refused{"mul.u32 %r1, %r2, %r3;", "an integer product is .lo, .hi or .wide"},
           Refused{"cvt.f16.f32 %h1, %r1;", "the conversion needs a rounding"},
           Refused{"mov.u32 %r1, 1", "line 10"},
       }) {
    const std::string message = load_message(kernel_text(0, row.body));
    EXPECT_NE(message.find(row.message), std::string::npos) << row.body << " gives: " << message;
    EXPECT_EQ(message.rfind("line ", 0), 0u) << message;
  }
}

TEST(Parser, RefusesBrokenTextWithoutHarm) {
  const std::string whole = kernel_text(1, "ld.global.v2.f32 {%r1, %r2}, [%p0+8]; @%q1 bra L; L: st.global.u32 [%p0], %t;");
  ASSERT_TRUE(ptx::parse_module(whole).ok());
  int refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) refused += ptx::parse_module(whole.substr(0, length)).ok() ? 0 : 1;
  EXPECT_GE(refused, static_cast<int>(whole.size()) - 130) << "only a text that ends with a whole item is one";
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (char c : {'{', '"', ';', '\x01', '9'}) {
      std::string damaged = whole;
      damaged[at] = c;
      const Outcome<ptx::Module> module = ptx::parse_module(damaged);
      EXPECT_TRUE(module.ok() || module.message().rfind("line ", 0) == 0) << damaged;
    }
  }
}

TEST(Target, PtxAndArchitectureAreAtMostTheDevices) {
  const auto ptx = [](const char* target, const char* version) { return kernel_text(0, "", "", target, version); };
  EXPECT_EQ(load_message(ptx("sm_80", "7.0"), Model::a100), "");
  EXPECT_EQ(load_message(ptx("sm_80", "9.0"), Model::rtx5090), "");
  EXPECT_EQ(load_message(ptx("sm_90a", "8.0"), Model::h200), "");
  EXPECT_EQ(load_message(ptx("sm_100f", "8.8"), Model::b200), "");
  EXPECT_NE(load_message(ptx("sm_90", "8.0"), Model::a100).find("does not run on"), std::string::npos);
  EXPECT_NE(load_message(ptx("sm_90a", "8.0"), Model::b200).find("does not run on"), std::string::npos)
      << "an a target runs on its own sm alone";
  EXPECT_NE(load_message(ptx("sm_100f", "8.8"), Model::rtx5090).find("does not run on"), std::string::npos);
  EXPECT_NE(load_message(ptx("sm_80", "9.9"), Model::h200).find("newer than the driver"), std::string::npos);
}

}  // namespace
}  // namespace headnorm::emulator::test
