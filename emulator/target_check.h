// Whether a device takes a module, and whether it can do a launch. Texts say why not; empty: it can.
#pragma once

#include <string>

#include "emulator/device_model.h"
#include "emulator/launch.h"
#include "emulator/machine/kernel.h"

namespace headnorm::emulator {

std::string check_target(const ptx::Module& module, const DeviceModel& model);
std::string check_launch(const Kernel& kernel, const DeviceModel& model, int ptx_version, const LaunchShape& shape,
                         std::uint64_t parameter_bytes);
std::uint32_t max_threads(const Kernel& kernel, const DeviceModel& model);  // of a block
std::uint32_t guess_registers(const Kernel& kernel);                        // of a thread

}  // namespace headnorm::emulator
