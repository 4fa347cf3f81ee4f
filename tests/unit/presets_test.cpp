// Presets and device models: the data is whole, and its numbers are those of the published tables, entered here a second time.
#include "cli/presets.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/device_models.h"

namespace headnorm::cli {
namespace {

// Name, width, head size, depth, tokens of an image or sequence; then whether the source was read ('V') or not in full ('M').
constexpr const char* kTable = R"(
vit-ti-16 192 192 12 197 V
vit-s-16 384 192 12 197 V
deit3-s 384 192 12 197 V
dinov2-s-14 384 192 12 257 M
vit-b-16 768 256 12 197 V
deit3-b 768 256 12 197 V
dinov2-b-14 768 256 12 257 M
vit-l-16 1024 256 24 197 V
deit3-l-16 1024 256 24 197 V
dinov2-l-14 1024 256 24 257 M
vit-h-14 1280 256 32 257 V
deit3-h 1280 256 32 257 V
vit-g-14 1408 352 40 257 M
vit-G-14 1664 208 48 257 M
vit-e-14 1792 256 56 257 M
vit-22b 6144 256 48 257 M
wide-vit-1024 1024 256 12 197 V
wide-vit-2048 2048 256 12 197 V
wide-vit-4096 4096 256 12 197 V
dinov2-g-14 1536 256 40 257 M
dinov3-s 384 192 12 201 V
dinov3-s+ 384 192 12 201 V
dinov3-b 768 256 12 201 V
dinov3-l 1024 256 24 201 V
dinov3-h+ 1280 256 32 201 V
dinov3-7b 4096 256 40 201 V
siglip-b-16 768 256 12 196 M
siglip-l-16 1024 256 24 256 M
siglip-so400m-14 1152 288 27 256 V
siglip2-g-16 1536 256 40 256 M
dit-s-2 384 192 12 256 V
dit-b-2 768 256 12 256 V
dit-l-2 1024 256 24 256 V
dit-xl-2 1152 288 28 256 V
pixart-alpha 1152 288 28 256 M
sd3-medium 1536 256 24 4429 V
sd3.5-medium 1536 256 24 4429 V
sd3.5-large 2432 304 38 4429 V
flux.1 3072 256 57 4608 V
hunyuan-video 3072 256 60 118800 M
wan2.1-14b 5120 256 40 75600 M
llama-3-8b 4096 256 32 4096 M
llama-3-70b 8192 256 80 4096 M
qwen3-0.6b 1024 256 28 4096 V
qwen3-1.7b 2048 256 28 4096 M
qwen3-4b 2560 256 36 4096 V
qwen3-8b 4096 256 36 4096 V
qwen3-14b 5120 256 40 4096 M
qwen3-32b 5120 256 64 4096 M
qwen3-30b-a3b 2048 256 48 4096 M
qwen3-235b-a22b 4096 256 94 4096 M
deepseek-v3 7168 256 61 4096 V
deepseek-r1 7168 256 61 4096 V
gemma3-270m 640 320 18 4096 M
gemma3-1b 1152 288 26 4096 M
gemma3-4b 2560 256 34 4096 M
gemma3-12b 3840 256 48 4096 M
gemma3-27b 5376 256 62 4096 M
olmoe-1b-7b 2048 256 16 4096 M
olmo2-1b 2048 256 16 4096 M
ablation-rmsnorm 4096 4096 12 197 V
ablation-layernorm 4096 4096 12 197 V
ablation-mh-layernorm 4096 256 12 197 V
ablation-mh-rmsnorm-shared 4096 256 12 197 V
ablation-d512 4096 512 12 197 V
ablation-d256 4096 256 12 197 V
ablation-d64 4096 64 12 197 V
)";

TEST(Presets, AreThoseOfTheTable) {
  std::istringstream table(kTable);
  std::string name, tag;
  std::int64_t width = 0, head_size = 0, tokens = 0;
  std::size_t rows = 0;
  for (int depth = 0; table >> name >> width >> head_size >> depth >> tokens >> tag; ++rows) {
    const Result<const Preset*> preset = find_preset(name);
    ASSERT_TRUE(preset.ok()) << name;
    EXPECT_EQ((*preset)->width, width) << name;
    EXPECT_EQ((*preset)->head_size, head_size) << name;
    EXPECT_EQ((*preset)->depth, depth) << name;
    EXPECT_EQ((*preset)->tokens, tokens) << name;
    const bool in_full = (*preset)->source.ends_with("; read in a published source");
    EXPECT_EQ(in_full, tag == "V") << name << ": " << (*preset)->source;
  }
  EXPECT_EQ(rows, presets().size());
}

TEST(Presets, HaveTheOptionsOfTheirModels) {
  for (const Preset& preset : presets()) {
    EXPECT_EQ(preset.weight_offset, preset.name.starts_with("gemma3") ? 1 : 0) << preset.name;
    EXPECT_EQ(preset.eps, preset.name.starts_with("llama-3") ? 1e-5 : 1e-6) << preset.name;
    EXPECT_EQ(preset.weight, preset.name.ends_with("-shared") ? WeightForm::shared : WeightForm::channel) << preset.name;
    EXPECT_EQ(preset.stat, preset.name.ends_with("layernorm") ? "layernorm" : "rms") << preset.name;
  }
}

TEST(DeviceModels, HaveRatesAndASource) {
  EXPECT_EQ(device_models().size(), 7u);
  for (const RooflineDevice& device : device_models()) {
    EXPECT_GT(device.gb_per_s, 500) << device.name;
    EXPECT_LE(device.gb_per_s, 8000) << device.name;
    EXPECT_GT(device.f32_gflop_per_s, 19e3) << device.name;
    EXPECT_LT(device.f32_gflop_per_s, 110e3) << device.name;
    EXPECT_NE(device.source.find("NVIDIA "), std::string::npos) << device.name;
  }
}

}  // namespace
}  // namespace headnorm::cli
