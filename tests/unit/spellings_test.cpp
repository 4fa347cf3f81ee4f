// Two spellings of one kernel come to one spec, and so to one key; different kernels never do.
#include <gtest/gtest.h>

#include <set>

#include "cli/shape_options.h"
#include "core/artifact.h"

namespace headnorm {
namespace {

using Spellings = std::vector<const char*>;

// Each row is one kernel.
const std::vector<Spellings>& kernels() {
  static const std::vector<Spellings> rows = {
      {"width=64,head_size=16", "head_size=16,width=64", "width=64,head_size=16,x=bf16,y=bf16,weight=channel:bf16",
       "width=64,head_size=16,eps=1e-6", "width=64,head_size=16,eps=0.000001", "width=64,head_size=16,eps=1.00000001e-6",
       "width=64,head_size=16,mode=default", "width=64,head_size=16,rounding=once", "width=64,head_size=16,norm_input=rounded",
       "width=64,head_size=16,weight_offset=-0", "width=64,head_size=16,residual=none:f32",
       "width=64,head_size=16,residual_scale=2", "width=64,head_size=16,norm_input=unrounded",
       "width=64,head_size=16,gate=none,sigma=sigmoid,seed_heads=2,seed_scale=3"},
      {"width=64,head_size=16,mode=batch-invariant"},
      {"width=64,head_size=16,mode=safe-range"},
      {"width=64,head_size=16,eps=0", "width=64,head_size=16,eps=-0", "width=64,head_size=16,eps=1e-60"},
      {"width=64,head_size=16,eps=1e-5"},
      {"width=64,head_size=16,weight=shared"},
      {"width=64,head_size=16,weight=head"},
      {"width=64,head_size=64", "width=64,head_size=64,weight=shared"},
      {"width=64,head_size=64,weight=head"},
      {"width=64,head_size=1", "width=64,head_size=1,weight=head"},
      {"width=64,head_size=1,weight=shared"},
      {"width=64,head_size=16,weight=none", "width=64,head_size=16,weight=none:f16",
       "width=64,head_size=16,weight=none,rounding=llama"},
      {"width=64,head_size=16,weight=none,y=f32"},
      {"width=64,head_size=16,weight=none,y=f32,rounding=llama"},
      {"width=64,head_size=16,rounding=llama"},
      {"width=64,head_size=16,x=f32", "width=64,head_size=16,x=f32,rounding=llama"},
      {"width=64,head_size=16,residual=add", "width=64,head_size=16,residual=add:bf16",
       "width=64,head_size=16,residual=add,residual_scale=1"},
      {"width=64,head_size=16,residual=add,norm_input=unrounded"},
      {"width=64,head_size=16,residual=add:f32", "width=64,head_size=16,residual=add:f32,norm_input=unrounded"},
      {"width=64,head_size=16,residual=inplace"},
      {"width=64,head_size=16,residual=add,residual_scale=2", "width=64,head_size=16,residual=add,residual_scale=2.00000001"},
      {"width=64,head_size=16,gate=seednorm", "width=64,head_size=16,gate=seednorm,seed_heads=4",
       "width=64,head_size=16,gate=seednorm,seed_scale=1.0", "width=64,head_size=16,gate=seednorm,sigma=tanh"},
      {"width=64,head_size=16,gate=seednorm,seed_heads=1"},
      {"width=64,head_size=16,gate=seednorm,seed_scale=0.1", "width=64,head_size=16,gate=seednorm,seed_scale=1e-1",
       "width=64,head_size=16,gate=seednorm,seed_scale=0.100000001"},
      {"width=64,head_size=16,gate=seednorm,sigma=softsign"},
      {"width=64,head_size=16,weight=none,gate=seednorm"},
      {"width=64,head_size=16,weight=none:f32,gate=seednorm"},
  };
  return rows;
}

TEST(Spellings, OfOneKernelHaveOneTextAndOneKey) {
  const Target target = make_host_target(HostIsa::x86_64_v3);
  std::set<std::string> texts, keys;
  for (const Spellings& spellings : kernels()) {
    const Result<KernelSpec> first = parse_spec(spellings[0]);
    ASSERT_TRUE(first.ok()) << spellings[0] << ": " << first.error().message;
    EXPECT_TRUE(texts.insert(to_text(*first)).second) << spellings[0] << " is another row's kernel";
    const auto key = [&](const KernelSpec& spec) {
      return artifact_key(*make_plan(spec, default_schedule(spec, target), target), "backend");
    };
    EXPECT_TRUE(keys.insert(key(*first)).second) << spellings[0];
    EXPECT_EQ(*make_spec(*first), *first) << spellings[0] << " is not canonical";
    EXPECT_EQ(*parse_spec(to_text(*first)), *first);
    for (const char* spelling : spellings) {
      const Result<KernelSpec> spec = parse_spec(spelling);
      ASSERT_TRUE(spec.ok()) << spelling << ": " << spec.error().message;
      EXPECT_EQ(to_text(*spec), to_text(*first)) << spelling;
      EXPECT_EQ(*spec, *first) << spelling;
      EXPECT_EQ(key(*spec), key(*first)) << spelling;
    }
  }
}

// Options of the command line, and the text that they come to.
struct Typed {
  const char* text;
  void (*type)(cli::ShapeOptions&);
};

const Typed kTyped[] = {
    {"width=4096,head_size=256", [](cli::ShapeOptions& o) { o.head_size = "256"; }},
    {"width=4096,head_size=256", [](cli::ShapeOptions& o) { o.head_size = "auto"; }},
    {"width=4096,head_size=256", [](cli::ShapeOptions& o) { o.heads = "16"; }},
    {"width=4096,head_size=256", [](cli::ShapeOptions& o) { o.heads = "16", o.head_size = "256"; }},
    {"width=4096,head_size=256", [](cli::ShapeOptions& o) { o.eps = "0.000001"; }},
    {"width=4096,head_size=256", [](cli::ShapeOptions& o) { o.dtype = "bf16", o.weight_dtype = "bf16"; }},
    {"width=4096,head_size=256", [](cli::ShapeOptions& o) { o.gate = "none", o.residual = "none", o.mode = "default"; }},
    {"width=4096,head_size=256", [](cli::ShapeOptions& o) { o.residual_dtype = "f32"; }},
    {"width=4096,head_size=256,weight=none", [](cli::ShapeOptions& o) { o.weight = "none", o.weight_dtype = "f16"; }},
    {"width=4096,head_size=256,gate=seednorm", [](cli::ShapeOptions& o) { o.gate = "seednorm", o.seed_heads = "16"; }},
    {"width=4096,head_size=256,gate=seednorm", [](cli::ShapeOptions& o) { o.gate = "seednorm", o.sigma = "tanh"; }},
    {"width=4096,head_size=256,mode=batch-invariant", [](cli::ShapeOptions& o) { o.mode = "batch-invariant"; }},
    {"width=4096,head_size=256,residual=add,residual_scale=2",
     [](cli::ShapeOptions& o) { o.residual = "add", o.residual_scale = "2.0"; }},
};

TEST(Spellings, OfTheCommandLineComeToOneSpec) {
  for (const Typed& typed : kTyped) {
    cli::ShapeOptions options;
    options.width = "4096";
    typed.type(options);
    const Result<cli::Shape> shape = cli::make_shape(options);
    ASSERT_TRUE(shape.ok()) << typed.text << ": " << shape.error().message;
    EXPECT_EQ(to_text(shape->spec), to_text(*parse_spec(typed.text)));
  }
}

// The text that explain prints, given to --spec, is the same kernel.
TEST(Spellings, APrintedSpecIsTheSameKernel) {
  for (const Spellings& spellings : kernels()) {
    cli::ShapeOptions options;
    options.spec = to_text(*parse_spec(spellings[0]));
    const Result<cli::Shape> shape = cli::make_shape(options);
    ASSERT_TRUE(shape.ok()) << *options.spec << ": " << shape.error().message;
    EXPECT_EQ(to_text(shape->spec), *options.spec);
  }
}

}  // namespace
}  // namespace headnorm
