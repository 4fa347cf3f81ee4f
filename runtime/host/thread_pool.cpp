#include "runtime/host/thread_pool.h"

#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace headnorm::host {

// The workers of one process.
struct ThreadPool::Crew {
  const pid_t process = ::getpid();
  std::mutex turn;  // held by the caller whose task it is; of `workers`
  std::vector<std::thread> workers;

  std::mutex mutex;  // of all below
  std::condition_variable work, finished;
  const std::function<void(int)>* task = nullptr;
  int count = 0, next = 0, done = 0;
  bool stop = false;

  ~Crew() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    work.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void start(int wanted) {
    try {
      while (static_cast<int>(workers.size()) < wanted) workers.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // no thread to be had: the others do the work
    }
  }

  void take_all(std::unique_lock<std::mutex>& lock) {
    while (next < count) {
      const int index = next++;
      lock.unlock();
      (*task)(index);
      lock.lock();
      ++done;
    }
  }

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      work.wait(lock, [this] { return stop || next < count; });
      if (stop) return;
      take_all(lock);
      if (done == count) finished.notify_one();
    }
  }

  void run(int wanted, const std::function<void(int)>& new_task) {
    std::unique_lock lock(mutex);
    task = &new_task;
    count = wanted;
    next = done = 0;
    for (int i = 1; i < wanted; ++i) work.notify_one();
    take_all(lock);
    finished.wait(lock, [this] { return done == count; });
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads) {}

ThreadPool::~ThreadPool() {
  Crew* const last = crew_.load();
  if (last != nullptr && last->process == ::getpid()) delete last;
}

// In a child, its parent's crew has no threads, and its locks may be held for ever: it is left as it is.
ThreadPool::Crew& ThreadPool::crew() {
  Crew* current = crew_.load();
  while (current == nullptr || current->process != ::getpid()) {
    auto fresh = std::make_unique<Crew>();
    if (crew_.compare_exchange_strong(current, fresh.get())) return *fresh.release();
  }
  return *current;
}

void ThreadPool::run(int count, const std::function<void(int)>& task) {
  if (count <= 1 || threads_ == 1) {
    for (int i = 0; i < count; ++i) task(i);
    return;
  }
  Crew& mine = crew();
  const std::lock_guard turn(mine.turn);
  mine.start(threads_ - 1);
  mine.run(count, task);
}

}  // namespace headnorm::host
