// ThreadPool: the threads that share one task; the calling thread is one of them.
//
// Threads start with the first task that needs them. After fork() a child, which has none of its parent's threads, starts its own.
#pragma once

#include <atomic>

#include "runtime/executor.h"

namespace headnorm::host {

class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int threads);  // >= 1
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const override { return threads_; }

  // Callers of several threads take turns. If the system has no thread left, those there are do all the work.
  void run(int count, const std::function<void(int index)>& task) override;

 private:
  struct Crew;
  Crew& crew();

  int threads_;
  std::atomic<Crew*> crew_{nullptr};
};

}  // namespace headnorm::host
