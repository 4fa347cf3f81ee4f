#include "emulator/device_model.h"

namespace headnorm::emulator {
namespace {

constexpr std::uint64_t kMega = std::uint64_t{1} << 20, kGiga = std::uint64_t{1} << 30;
constexpr std::uint32_t kKilo = 1024;
constexpr Dim3 kGrid{0x7fffffff, 65535, 65535}, kBlock{1024, 1024, 64};
constexpr int kPtxVersion = 90;

constexpr DeviceModel kModels[] = {
    {"a100",      "NVIDIA A100-SXM4-80GB (emulated)",
     80,          108,
     80 * kGiga,  40 * kMega,
     1410000,     1593000,
     5120,        48 * kKilo,
     163 * kKilo, 164 * kKilo,
     kKilo,       1024,
     2048,        32,
     65536,       kGrid,
     kBlock,      1,
     1,           4096,
     kPtxVersion},
    {"rtx3090",  "NVIDIA GeForce RTX 3090 (emulated)",
     86,         82,
     24 * kGiga, 6 * kMega,
     1695000,    9751000,
     384,        48 * kKilo,
     99 * kKilo, 100 * kKilo,
     kKilo,      1024,
     1536,       16,
     65536,      kGrid,
     kBlock,     1,
     1,          4096,
     kPtxVersion},
    {"l40s",     "NVIDIA L40S (emulated)",
     89,         142,
     48 * kGiga, 96 * kMega,
     2520000,    9001000,
     384,        48 * kKilo,
     99 * kKilo, 100 * kKilo,
     kKilo,      1024,
     1536,       24,
     65536,      kGrid,
     kBlock,     1,
     1,          4096,
     kPtxVersion},
    {"h200",      "NVIDIA H200 (emulated)",
     90,          132,
     141 * kGiga, 50 * kMega,
     1980000,     3201000,
     6144,        48 * kKilo,
     227 * kKilo, 228 * kKilo,
     kKilo,       1024,
     2048,        32,
     65536,       kGrid,
     kBlock,      8,
     16,          32764,
     kPtxVersion},
    {"b200",      "NVIDIA B200 (emulated)",
     100,         148,
     180 * kGiga, 126 * kMega,
     1965000,     3996000,
     8192,        48 * kKilo,
     227 * kKilo, 228 * kKilo,
     kKilo,       1024,
     2048,        32,
     65536,       kGrid,
     kBlock,      8,
     16,          32764,
     kPtxVersion},
    {"rtx5090",  "NVIDIA GeForce RTX 5090 (emulated)",
     120,        170,
     32 * kGiga, 96 * kMega,
     2407000,    14001000,
     512,        48 * kKilo,
     99 * kKilo, 100 * kKilo,
     kKilo,      1024,
     1536,       24,
     65536,      kGrid,
     kBlock,     8,
     8,          32764,
     kPtxVersion},
};
constexpr Model kAll[] = {Model::a100, Model::rtx3090, Model::l40s, Model::h200, Model::b200, Model::rtx5090};

}  // namespace

const DeviceModel& device_model(Model model) { return kModels[static_cast<std::size_t>(model)]; }

std::optional<Model> parse_model(std::string_view slug) {
  for (Model model : kAll) {
    if (slug == device_model(model).slug) return model;
  }
  return std::nullopt;
}

std::span<const Model> all_models() { return kAll; }

}  // namespace headnorm::emulator
