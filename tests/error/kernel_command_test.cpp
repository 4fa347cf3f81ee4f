// Right invocations of explain and generate: the keys of the documents, and what each option does to the kernel.
#include <set>

#include "tests/error/answers.h"

namespace headnorm::test {
namespace {

TEST(Explain, HasEveryKey) {
  for (const char* target : {"sm_80", "sm_90", "x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16", "aarch64"}) {
    const json document = answer(Command(), {"explain", "--preset", "wide-vit-4096", "--target", target});
    expect_keys(document, {"spec", "schedule", "target", "entry", "plan", "rows", "bytes", "operations", "roofline"});
    EXPECT_EQ(document["target"], target);
    EXPECT_EQ(document["rows"], 12608);
    EXPECT_EQ(document["bytes"]["total"], 12608 * 4096 * 2 * 2 + 4096 * 2);
    EXPECT_EQ(document["roofline"].size(), 7u);
  }
}

TEST(Explain, RooflineIsBytesOverBandwidth) {
  const json document = answer(Command(), {"explain", "--width", "1024", "--rows", "1000", "--device", "model:a100"});
  ASSERT_EQ(document["roofline"].size(), 1u);
  EXPECT_EQ(document["roofline"][0]["bound"], "memory");
  EXPECT_NEAR(document["roofline"][0]["time_us"].get<double>(), document["bytes"]["total"].get<double>() / 2039e3, 1e-9);
}

TEST(Explain, TheHostIsMeasuredWhenAskedFor) {
  const json document = answer(Command(), {"explain", "--width", "1024", "--device", "host", "--threads", "1"});
  ASSERT_EQ(document["roofline"].size(), 1u);
  EXPECT_EQ(document["roofline"][0]["device"], "host");
  EXPECT_GT(document["roofline"][0]["gb_per_s"].get<double>(), 0);
  EXPECT_NEAR(document["roofline"][0]["time_us"].get<double>() * document["roofline"][0]["gb_per_s"].get<double>(),
              document["bytes"]["total"].get<double>() / 1e3, 1e-3);
}

struct OptionCase {
  Words options;
  std::string spec;  // canonical text
};

TEST(Explain, EveryShapeOptionIsInTheSpec) {
  const std::string base = "width=64,head_size=32";
  const std::vector<OptionCase> cases = {
      {{}, base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"},
      {{"--pass", "forward", "--stat", "rms", "--mode", "default"}, base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"},
      {{"--head-size", "16"}, "width=64,head_size=16,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"},
      {{"--head-size", "auto"}, "width=64,head_size=64,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"},
      {{"--heads", "4"}, "width=64,head_size=16,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"},
      {{"--heads", "4", "--head-size", "16"}, "width=64,head_size=16,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"},
      {{"--dtype", "f32"}, base + ",x=f32,y=f32,weight=channel:f32,eps=1e-06"},
      {{"--weight-dtype", "f32"}, base + ",x=bf16,y=bf16,weight=channel:f32,eps=1e-06"},
      {{"--out-dtype", "f32"}, base + ",x=bf16,y=f32,weight=channel:bf16,eps=1e-06"},
      {{"--weight", "none"}, base + ",x=bf16,y=bf16,weight=none,eps=1e-06"},
      {{"--weight", "shared"}, base + ",x=bf16,y=bf16,weight=shared:bf16,eps=1e-06"},
      {{"--weight", "head"}, base + ",x=bf16,y=bf16,weight=head:bf16,eps=1e-06"},
      {{"--weight-offset", "1"}, base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,weight_offset=1"},
      {{"--eps", "0"}, base + ",x=bf16,y=bf16,weight=channel:bf16,eps=0"},
      {{"--residual", "add"}, base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,residual=add:bf16"},
      {{"--residual", "inplace", "--residual-dtype", "f32"},
       base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,residual=inplace:f32"},
      {{"--gate", "seednorm"}, base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,gate=seednorm,seed_heads=2"},
      {{"--gate", "seednorm", "--seed-heads", "1", "--seed-scale", "0.5", "--sigma", "softsign"},
       base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,gate=seednorm,seed_heads=1,seed_scale=0.5,sigma=softsign"},
      {{"--rounding", "llama"}, base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,rounding=llama"},
      {{"--residual", "add", "--norm-input", "unrounded"},
       base + ",x=bf16,y=bf16,weight=channel:bf16,eps=1e-06,residual=add:bf16,norm_input=unrounded"},
  };
  const Command command;
  for (const OptionCase& option : cases) {
    // The base gives a spec, so that every option is also seen to override one.
    const json document = answer(command, join({"explain", "--spec", base}, option.options));
    EXPECT_EQ(document["spec"], option.spec);
    EXPECT_EQ(answer(command, {"explain", "--spec", option.spec})["spec"], option.spec);
  }
}

TEST(Explain, OptionsOverrideAPreset) {
  const json document = answer(Command(), {"explain", "--preset", "gemma3-27b", "--width", "1152", "--dtype", "f32"});
  EXPECT_EQ(document["spec"], "width=1152,head_size=288,x=f32,y=f32,weight=channel:f32,eps=1e-06,weight_offset=1");
}

// The head size of a preset says something where it is not the automatic one: one head of an ablation is one head at any width.
TEST(Explain, AnotherWidthKeepsTheHeadsThatAPresetChose) {
  const std::pair<Words, std::string> cases[] = {
      {{"--preset", "ablation-rmsnorm", "--width", "1024"}, "width=1024,head_size=1024,"},
      {{"--preset", "ablation-d64", "--width", "1024"}, "width=1024,head_size=64,"},
      {{"--preset", "ablation-d512", "--width", "1536"}, "width=1536,head_size=512,"},
      {{"--preset", "ablation-d512", "--width", "1152"}, "width=1152,head_size=288,"},  // 512 does not divide it
      {{"--preset", "ablation-d256", "--width", "1152"}, "width=1152,head_size=288,"},
      {{"--preset", "ablation-rmsnorm", "--width", "1024", "--head-size", "auto"}, "width=1024,head_size=256,"},
      {{"--preset", "ablation-rmsnorm", "--width", "1024", "--heads", "8"}, "width=1024,head_size=128,"},
      {{"--preset", "vit-ti-16", "--width", "1024"}, "width=1024,head_size=256,"},  // its one head is the automatic choice
  };
  for (const auto& [options, spec] : cases) {
    const std::string got = answer(Command(), join({"explain"}, options))["spec"];
    EXPECT_TRUE(got.starts_with(spec)) << got << ", not " << spec;
  }
}

// An offset that a preset brings can be taken away together with the weight.
TEST(Explain, AnOffsetGoesWithItsWeight) {
  const json document = answer(Command(), {"explain", "--preset", "gemma3-1b", "--weight", "none", "--weight-offset", "0"});
  EXPECT_EQ(document["spec"], "width=1152,head_size=288,x=bf16,y=bf16,weight=none,eps=1e-06");
}

TEST(Explain, OperationsAreWholeNumbers) {
  const json operations = answer(Command(), {"explain", "--width", "4096", "--rows", "4096"})["operations"];
  ASSERT_TRUE(operations["flops"].is_number_integer()) << operations;
  EXPECT_EQ(operations["flops"].get<std::int64_t>(), 4096 * operations["flops_per_row"].get<std::int64_t>());
}

TEST(Explain, AnIllegalScheduleNamesTheRuleTheNearestLegalOnesAndStillTheWork) {
  struct Case {
    Words options;
    std::string schedule, message, remedy;
  };
  const std::string host = "x86-64-v4", gpu = "sm_90";
  const Case cases[] = {
      {{"--target", host},
       "form=split,accumulators=3",
       "accumulators=3: must be 1, 2, 4 or 8",
       "accumulators=4; or with accumulators=2"},
      {{"--target", host, "--head-size", "4096"}, "form=rot", "vector registers", "legal with form="},
      {{"--target", host, "--head-size", "100", "--width", "400"}, "form=split,store=nt", "store=nt", "store=plain"},
      {{"--target", host, "--head-size", "100", "--width", "400"},
       "form=split,store=nt,accumulators=3",
       "accumulators=3",
       "store=plain,accumulators="},
      {{"--target", gpu}, "lanes=48", "lanes=48: must be a power of two", "lanes=32; or with lanes=16"},
      {{"--target", gpu}, "form=rot", "is not for target sm_90", "lanes="},
      {{"--target", gpu}, "lanes=16,vector=16,access=32", "access=32", "--target sm_100+ptx88; legal with access=16"},
      {{"--target", host, "--width", "256"}, "heads=0", "heads=0", "heads=1"},
      {{"--target", host, "--head-size", "256"}, "form=split,heads=3", "heads=3", "heads=4; or with heads=2"},
  };
  for (const Case& wrong : cases) {
    const Words shape = join({"explain", "--preset", "wide-vit-4096"}, wrong.options);
    const Words words = join(shape, {"--schedule", wrong.schedule});
    const CommandResult result = Command().run(join(words, {"--json"}));
    EXPECT_EQ(result.exit_code, 2);
    const json document = result.json();
    expect_keys(document, {"error", "spec", "schedule", "target", "rows", "bytes", "operations", "roofline", "nearby"});
    EXPECT_EQ(document.value("legal", true), false);
    EXPECT_GT(document["bytes"]["total"], 0);
    EXPECT_NE(document["error"]["message"].get<std::string>().find(wrong.message), std::string::npos) << document["error"];
    EXPECT_NE(document["error"]["remedy"].get<std::string>().find(wrong.remedy), std::string::npos) << document["error"];
    for (const json& near : document["nearby"])
      EXPECT_EQ(answer(Command(), join(shape, {"--schedule", near["schedule"]}))["legal"], true) << near;
    const CommandResult text = Command().run(words);
    EXPECT_EQ(text.exit_code, 2);
    EXPECT_NE(text.out.find("(illegal)"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("roofline (a bound, not a measurement)"), std::string::npos) << text.out;
    EXPECT_TRUE(text.err.starts_with("error: ")) << text.err;
  }
}

TEST(Explain, EveryModelHasItsRatesAndTheirSource) {
  const json document = answer(Command(), {"explain", "--width", "4096", "--rows", "4096"});
  std::set<std::string> names;
  for (const json& row : document["roofline"]) {
    expect_keys(row, {"device", "title", "gb_per_s", "time_us", "bound", "source"});
    EXPECT_NE(row["source"], "");
    // A kernel that moves 4 bytes an element and does a few operations on it waits for the memory of each of these.
    EXPECT_EQ(row["bound"], "memory");
    names.insert(row["device"]);
    EXPECT_EQ(answer(Command(), {"explain", "--width", "4096", "--device", "model:" + row["device"].get<std::string>()})["roofline"]
                  .size(),
              1u);
  }
  EXPECT_EQ(names, (std::set<std::string>{"a100", "h100", "h200", "b200", "l40s", "rtx4090", "rtx5090"}));
}

// Two ways to say one kernel are one spec: the same text, and so the same key.
TEST(Explain, SpellingsOfOneKernelAreOneSpec) {
  const std::pair<Words, Words> cases[] = {
      {{"--width", "4096", "--heads", "16"}, {"--width", "4096", "--head-size", "256"}},
      {{"--width", "4096"}, {"--width", "4096", "--head-size", "auto"}},
      {{"--width", "4096", "--heads", "16", "--head-size", "256"}, {"--preset", "wide-vit-4096"}},
      {{"--preset", "wide-4096"}, {"--preset", "wide-vit-4096"}},
      {{"--preset", "gemma3-27b"}, {"--width", "5376", "--weight-offset", "1"}},
      {{"--preset", "ablation-mh-rmsnorm-shared"}, {"--width", "4096", "--weight", "shared"}},
      {{"--preset", "ablation-rmsnorm"}, {"--width", "4096", "--heads", "1"}},
      {{"--preset", "llama-3-8b"}, {"--preset", "qwen3-8b", "--eps", "1e-5"}},
      {{"--width", "4096", "--eps", "1e-6"}, {"--width", "4096", "--eps", "0.000001"}},
      {{"--width", "4096", "--eps", "1e-06"}, {"--width", "4096", "--eps", "10e-7"}},
      {{"--width", "4096", "--eps", "0"}, {"--width", "4096", "--eps", "-0.0"}},
      {{"--width", "4096", "--gate", "seednorm"}, {"--width", "4096", "--gate", "seednorm", "--seed-heads", "16"}},
      {{"--width", "4096", "--gate", "seednorm"},
       {"--width", "4096", "--gate", "seednorm", "--seed-scale", "1.0", "--sigma", "tanh"}},
      {{"--width", "4096", "--dtype", "f32"}, {"--width", "4096", "--dtype", "f32", "--weight-dtype", "f32", "--out-dtype", "f32"}},
      {{"--width", "4096", "--dtype", "f16"}, {"--width", "4096", "--dtype", "f16", "--residual-dtype", "f32"}},
      {{"--width", "4096", "--dtype", "f32", "--rounding", "llama"}, {"--width", "4096", "--dtype", "f32"}},
      {{"--width", "4096", "--residual", "none", "--weight", "channel", "--mode", "default"}, {"--width", "4096"}},
  };
  for (const auto& [one, other] : cases) {
    const json a = answer(Command(), join({"explain", "--target", "sm_90"}, one));
    const json b = answer(Command(), join({"explain", "--target", "sm_90"}, other));
    EXPECT_EQ(a["spec"], b["spec"]) << ::testing::PrintToString(one);
    EXPECT_EQ(a["schedule"], b["schedule"]);
    EXPECT_EQ(a["entry"], b["entry"]);
  }
}

TEST(Explain, ScheduleIsCanonical) {
  const Words shape = {"explain", "--width", "4096", "--target", "sm_90"};
  const std::string schedule = answer(Command(), shape)["schedule"];
  EXPECT_EQ(answer(Command(), join(shape, {"--schedule", schedule}))["schedule"], schedule);
}

TEST(Generate, WritesTheKernelAndHowToLaunchIt) {
  const Command command;
  const std::filesystem::path directory = command.home() / "a b '$(x)' \u00e9\u6f22";
  std::filesystem::create_directory(directory);
  const std::string file = directory / "norm.ptx";
  const json document = answer(command, {"generate", "--width", "1024", "--residual", "add", "--gate", "seednorm", "--target",
                                         "sm_90", "--emit", "ptx", "-o", file});
  expect_keys(document, {"spec", "schedule", "target", "entry", "files"});
  EXPECT_EQ(document["files"], json::array({file, file + ".launch.json"}));
  EXPECT_NE(read_whole(file).find(".visible .entry " + document["entry"].get<std::string>()), std::string::npos);
  const json launch = json::parse(read_whole(file + ".launch.json"));
  expect_keys(launch, {"entry", "parameters", "grid", "block", "shared_bytes", "cluster", "alignment", "ptx_version", "target",
                       "spec", "schedule"});
  Words names;
  for (const json& parameter : launch["parameters"]) {
    expect_keys(parameter, {"name", "kind", "dtype", "shape"});
    names.push_back(parameter["name"]);
  }
  EXPECT_EQ(names, (Words{"x", "residual", "gamma", "alpha", "beta", "y", "residual_out", "x_stride", "residual_stride", "y_stride",
                          "residual_out_stride", "rows"}));
  EXPECT_EQ(launch["parameters"][0]["shape"], json::array({"rows", 1024}));
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    EXPECT_TRUE(entry.path().filename().string().starts_with("norm.ptx")) << entry.path();
}

TEST(Generate, EveryEmitGoesToStandardOutput) {
  const Command command;
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--target", "sm_80", "--emit", "ptx"}, ".target sm_80"},
      {{"--target", "sm_90", "--emit", "asm"}, ".target sm_90"},
      {{"--target", "x86-64-v3", "--emit", "asm"}, "headnorm_w512"},
      {{"--target", "x86-64-v4", "--emit", "llvm"}, "define"},
      {{"--target", "sm_90", "--emit", "cuda"}, "sum_sq += x * x"},
      {{"--target", "sm_80", "--emit", "program"}, "reduce_dot head"},
      {{"--target", "x86-64", "--emit", "object"}, "\177ELF"},
      {{"--target", "aarch64", "--emit", "object"}, "\177ELF"},
      {{"--target", "aarch64", "--emit", "asm"}, "fmla"},
      {{"--target", "aarch64", "--emit", "llvm"}, "aarch64-unknown"},
  };
  for (const auto& [options, part] : cases) {
    const CommandResult result = command.run(join({"generate", "--width", "512"}, options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find(part), std::string::npos) << options[3];
  }
}

TEST(Generate, DevicesAndLinksKeepTheirPlace) {
  const Command command;
  const json document = answer(command, {"generate", "--width", "512", "--emit", "program", "-o", "/dev/null"});
  EXPECT_EQ(document["files"], json::array({"/dev/null"}));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const std::filesystem::path link = command.home() / "link", target = command.home() / "target";
  write_whole(target, "old");
  std::filesystem::create_symlink(target, link);
  answer(command, {"generate", "--width", "512", "--emit", "program", "-o", link});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(read_whole(target).starts_with("program "));
}

}  // namespace
}  // namespace headnorm::test
