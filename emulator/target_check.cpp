#include "emulator/target_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace headnorm::emulator {
namespace {

constexpr std::uint32_t kSmallParameters = 4096;  // what kernels before PTX 8.1 can take

std::string version_text(int version) { return fmt::format("{}.{}", version / 10, version % 10); }

std::string check_grid(const DeviceModel& model, const LaunchShape& shape) {
  const Dim3& g = shape.grid;
  if (g.count() == 0) return "the grid has no block";
  if (g.x > model.max_grid.x || g.y > model.max_grid.y || g.z > model.max_grid.z)
    return fmt::format("grid ({},{},{}); {} takes ({},{},{}) at most", g.x, g.y, g.z, model.name, model.max_grid.x,
                       model.max_grid.y, model.max_grid.z);
  return "";
}

std::string check_block(const Kernel& kernel, const DeviceModel& model, const LaunchShape& shape) {
  const Dim3& b = shape.block;
  if (b.count() == 0) return "the block has no thread";
  if (b.x > model.max_block.x || b.y > model.max_block.y || b.z > model.max_block.z)
    return fmt::format("block ({},{},{}); {} takes ({},{},{}) at most", b.x, b.y, b.z, model.name, model.max_block.x,
                       model.max_block.y, model.max_block.z);
  const auto& required = kernel.source.required_threads;
  if (required[0] != 0 && (b.x != required[0] || b.y != required[1] || b.z != required[2]))
    return fmt::format("block ({},{},{}); the kernel requires ({},{},{}) (.reqntid)", b.x, b.y, b.z, required[0], required[1],
                       required[2]);
  const auto& most = kernel.source.max_threads;
  const std::uint64_t limit = std::uint64_t{most[0]} * std::max(most[1], 1u) * std::max(most[2], 1u);
  if (limit != 0 && b.count() > limit)
    return fmt::format("{} threads in a block; the kernel takes {} at most (.maxntid)", b.count(), limit);
  if (b.count() > model.threads_per_block)
    return fmt::format("{} threads in a block; {} takes {} at most", b.count(), model.name, model.threads_per_block);
  return "";
}

std::string check_cluster(const Kernel& kernel, const DeviceModel& model, const LaunchShape& shape) {
  const Dim3 &c = shape.cluster, &g = shape.grid;
  const auto& required = kernel.source.cluster;
  if (required[0] != 0 && (c.x != required[0] || c.y != required[1] || c.z != required[2]))
    return fmt::format("cluster ({},{},{}); the kernel requires ({},{},{}) (.reqnctapercluster)", c.x, c.y, c.z, required[0],
                       required[1], required[2]);
  if (c.count() > 1 && model.max_cluster == 1) return fmt::format("{} has no clusters", model.name);
  if (c.count() > model.max_large_cluster)
    return fmt::format("a cluster of {} blocks; {} takes {} at most", c.count(), model.name, model.max_large_cluster);
  if (g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0)
    return fmt::format("grid ({},{},{}) is not a multiple of the cluster ({},{},{})", g.x, g.y, g.z, c.x, c.y, c.z);
  return "";
}

}  // namespace

std::string check_target(const ptx::Module& module, const DeviceModel& model) {
  if (module.version > model.ptx_version)
    return fmt::format(".version {} is newer than the driver of {}, which takes PTX up to {}", version_text(module.version),
                       model.name, version_text(model.ptx_version));
  int sm = 0;
  const std::string_view digits = std::string_view(module.target).substr(3);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), sm);
  const std::string_view suffix(parsed.ptr, static_cast<std::size_t>(digits.data() + digits.size() - parsed.ptr));
  if (parsed.ec != std::errc() || (!suffix.empty() && suffix != "a" && suffix != "f"))
    return fmt::format(".target {} is not known", module.target);
  const bool is_family = sm / 10 == model.sm / 10 && sm <= model.sm;
  const bool fits = suffix == "a" ? sm == model.sm : suffix == "f" ? is_family : sm <= model.sm;
  if (!fits) return fmt::format(".target {} does not run on {}, which is sm_{}", module.target, model.name, model.sm);
  return "";
}

std::string check_launch(const Kernel& kernel, const DeviceModel& model, int ptx_version, const LaunchShape& shape,
                         std::uint64_t parameter_bytes) {
  for (const std::string& refused :
       {check_grid(model, shape), check_block(kernel, model, shape), check_cluster(kernel, model, shape)}) {
    if (!refused.empty()) return refused;
  }
  if (kernel.shared_bytes > model.shared_per_block)
    return fmt::format("{} bytes of static shared memory; {} is the limit", kernel.shared_bytes, model.shared_per_block);
  const std::uint64_t shared = kernel.shared_bytes + shape.dynamic_shared_bytes;
  if (shared > model.shared_per_block_optin)
    return fmt::format("{} bytes of shared memory; {} has {} for a block", shared, model.name, model.shared_per_block_optin);
  const std::uint64_t most = ptx_version >= 81 ? model.parameter_bytes : std::min(model.parameter_bytes, kSmallParameters);
  if (kernel.parameter_bytes > most) return fmt::format("{} bytes of parameters; {} is the limit", kernel.parameter_bytes, most);
  if (parameter_bytes != kernel.parameter_bytes)
    return fmt::format("{} bytes of parameters are given, the kernel has {}", parameter_bytes, kernel.parameter_bytes);
  return "";
}

std::uint32_t max_threads(const Kernel& kernel, const DeviceModel& model) {
  const auto& said = kernel.source.required_threads[0] != 0 ? kernel.source.required_threads : kernel.source.max_threads;
  if (said[0] == 0) return model.threads_per_block;
  const std::uint64_t limit = std::uint64_t{said[0]} * std::max(said[1], 1u) * std::max(said[2], 1u);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, model.threads_per_block));
}

std::uint32_t guess_registers(const Kernel& kernel) {
  std::uint32_t words = 0;
  for (const ptx::Register& reg : kernel.source.registers)
    words += reg.type == ptx::Type::pred ? 0 : size_bytes(reg.type) == 8 ? 2 : 1;
  constexpr std::uint32_t kFewest = 16, kMost = 255;
  return std::clamp(words / 3, kFewest, kMost);
}

}  // namespace headnorm::emulator
