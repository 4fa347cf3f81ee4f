// What the handles of the C API hold. Each keeps alive what it needs of others.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/c_api/headnorm_c.h"
#include "runtime/headnorm.h"

struct headnorm_spec {
  headnorm::KernelSpec spec;
  std::string text;
};

struct headnorm_device {
  std::shared_ptr<headnorm::Device> device;
  std::string target;
};

struct headnorm_buffer {
  std::shared_ptr<headnorm::Device> device;
  headnorm::Buffer buffer;  // goes before its device
};

struct headnorm_database {
  std::shared_ptr<headnorm::Database> database;
};

struct headnorm_runtime {
  std::shared_ptr<headnorm::Device> device;
  std::shared_ptr<headnorm::Database> database;  // may be null
  std::shared_ptr<headnorm::CodegenBackend> compiler;
  std::optional<headnorm::Runtime> runtime;  // goes before all of them
};
