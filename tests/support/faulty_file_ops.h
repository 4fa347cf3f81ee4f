// File operations that fail or stop at a chosen call.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "runtime/database/directory.h"

namespace headnorm::test {

// Asks `fault(name)` before every call: 0 lets it happen, a negative errno is its result.
class FaultyFileOps final : public FileOps {
 public:
  using Fault = std::function<int(const std::string& call)>;
  explicit FaultyFileOps(Fault fault) : fault_(std::move(fault)) {}

  int make_directory(int parent, const char* name) override {
    const int fault = fault_("make_directory");
    return fault < 0 ? fault : FileOps::make_directory(parent, name);
  }
  int create(int directory, const char* name) override {
    const int fault = fault_("create");
    return fault < 0 ? fault : FileOps::create(directory, name);
  }
  // Writes half of what it is given, so that a file is torn between two calls.
  std::int64_t write(int file, const char* bytes, std::size_t size) override {
    const int fault = fault_("write");
    return fault < 0 ? fault : FileOps::write(file, bytes, (size + 1) / 2);
  }
  int sync(int descriptor) override {
    const int fault = fault_("sync");
    return fault < 0 ? fault : FileOps::sync(descriptor);
  }
  int rename(int directory, const char* from, const char* to) override {
    const int fault = fault_("rename");
    return fault < 0 ? fault : FileOps::rename(directory, from, to);
  }
  int remove(int directory, const char* name) override {
    const int fault = fault_("remove");
    return fault < 0 ? fault : FileOps::remove(directory, name);
  }
  int touch(int directory, const char* name) override {
    const int fault = fault_("touch");
    return fault < 0 ? fault : FileOps::touch(directory, name);
  }
  int lock(int descriptor) override {
    const int fault = fault_("lock");
    return fault < 0 ? fault : FileOps::lock(descriptor);
  }

 private:
  Fault fault_;
};

// Lets `calls` calls happen and kills the process at the next one.
inline FaultyFileOps::Fault killed_after(int calls) {
  return [calls](const std::string&) mutable {
    if (calls-- == 0) ::kill(::getpid(), SIGKILL);
    return 0;
  };
}

}  // namespace headnorm::test
