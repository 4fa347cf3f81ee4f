// What the stand-in driver holds: devices, contexts, streams, events and graphs. One lock guards all of it: a launch runs to its
// end before another call begins, which many threads may make.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "emulator/driver/cuda_api.h"
#include "emulator/emulator.h"

namespace headnorm::emulator::driver {

struct DriverContext;

// One operation of a stream.
using Work = std::function<CUresult()>;

struct DriverGraph {
  std::vector<Work> work;
};

struct DriverStream {
  DriverContext* context = nullptr;
  unsigned int flags = 0;
  int priority = 0;
  std::deque<Work> queue;          // not run yet
  DriverGraph* capture = nullptr;  // that it records into
  bool is_capture_origin = false;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

struct DriverEvent {
  DriverContext* context = nullptr;
  unsigned int flags = 0;
  bool is_recorded = false, is_done = true;
  double time_us = 0;              // modelled
  DriverStream* stream = nullptr;  // that it was recorded in, while it is not done
  DriverGraph* capture = nullptr;  // that it was recorded into
};

struct DriverModule;

struct DriverFunction {
  DriverModule* module = nullptr;
  std::string name;
  KernelFacts facts;
  std::uint64_t max_dynamic_shared_bytes = 0;
  int carveout = -1, allows_large_cluster = 0;
};

struct DriverModule {
  DriverContext* context = nullptr;
  std::shared_ptr<Module> module;
  std::map<std::string, std::unique_ptr<DriverFunction>> functions;
};

struct DriverDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<DriverContext> primary;
  int primary_uses = 0;
  unsigned int primary_flags = 0;
};

struct DriverContext {
  int device = 0;
  CUresult sticky = CUDA_SUCCESS;  // after a fault every call gives it, until the context ends
  DriverStream null_stream;
  std::set<std::unique_ptr<DriverStream>> streams;
  std::set<std::unique_ptr<DriverEvent>> events;
  std::set<std::unique_ptr<DriverModule>> modules;
  double clock_us = 0;  // modelled time of the device
};

// When the work of a stream is done.
enum class Eagerness : std::uint8_t { eager, queued };  // queued: at synchronisation, which brings out waits that are missing

struct Driver {
  std::recursive_mutex lock;
  bool is_initialised = false;
  Eagerness eagerness = Eagerness::eager;
  LaunchOptions options;
  std::vector<DriverDevice> devices;
  std::set<std::unique_ptr<DriverContext>> contexts;  // that are not primary
  std::set<std::unique_ptr<DriverGraph>> graphs, executables;
  std::map<void*, std::unique_ptr<char[]>> host_memory;
  std::string last_fault;
  Counters last_counters;
};

Driver& driver();
std::vector<DriverContext*>& context_stack();  // of this thread; the current one last

// The members of a set of owners, by their plain pointer.
template <class T>
bool contains(const std::set<std::unique_ptr<T>>& owners, const void* pointer) {
  for (const std::unique_ptr<T>& owner : owners) {
    if (owner.get() == pointer) return true;
  }
  return false;
}
template <class T>
void erase(std::set<std::unique_ptr<T>>& owners, const void* pointer) {
  for (auto owner = owners.begin(); owner != owners.end(); ++owner) {
    if (owner->get() != pointer) continue;
    owners.erase(owner);
    return;
  }
}

// The current context for a call that works in it; `result` says why there is none.
DriverContext* current_context(CUresult& result);
Device& device_of(const DriverContext& context);
DriverStream* find_stream(DriverContext& context, CUstream handle);  // null: no such stream

// Does the work now or later, or records it, as the stream is.
CUresult submit(DriverStream& stream, Work work);
// Does the next work of a stream that has some.
CUresult finish_next(DriverStream& stream);
// Does all that a stream, or a context, still has to do.
CUresult finish(DriverStream& stream);
CUresult finish(DriverContext& context);
// Whether some stream records in a mode that forbids calls such as allocating.
bool is_capture_strict();

}  // namespace headnorm::emulator::driver
