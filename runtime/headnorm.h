// headnorm for programs: the one header to include. Open a database, make a device and a Runtime, and run.
//
//   auto device = headnorm::make_host_device(0);
//   auto database = headnorm::Database::open("my_tuned_tables");
//   headnorm::Runtime runtime(**device, database->get(), nullptr);
//   auto report = runtime.run(spec, arguments);
//
// Functions that can fail return Result<T> (core/result.h). A program that is to compile what is not stored links the generator
// too, includes generator/generator.h and gives make_llvm_backend() to the Runtime.
#pragma once

#include "core/kernel_spec.h"
#include "core/launch_abi.h"
#include "core/result.h"
#include "core/schedule.h"
#include "core/target.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/database/database.h"
#include "runtime/database/layered_database.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/runtime.h"
