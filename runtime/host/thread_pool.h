// ThreadPool: the threads that share one task; the calling thread is one of them.
//
// Threads start with the first task that needs them. After fork() a child, which has none of its parent's threads, starts its own.
#pragma once

#include <atomic>

namespace headnorm::host {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // >= 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls task(context, i) once for each i in [0, count) and returns when all have returned. Callers of several threads take turns.
  // If the system has no thread left, those there are do all the work.
  void run(int count, void (*task)(void* context, int index), void* context);

 private:
  struct Crew;
  Crew& crew();

  int threads_;
  std::atomic<Crew*> crew_{nullptr};
};

}  // namespace headnorm::host
