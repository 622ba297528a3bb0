#include "threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace hs {
namespace {

std::atomic<int64_t> most_threads{0};

struct Shared {
  Shared(int64_t tasks, const std::function<void(int64_t)>& task) : tasks(tasks), task(&task) {}

  // Takes tasks until none is left. `task` is looked at only while one is held, and the caller of `parallel` stays
  // until all are done, so that a helper that comes late finds nothing and touches nothing.
  void work() {
    for (int64_t i = next.fetch_add(1); i < tasks; i = next.fetch_add(1)) {
      (*task)(i);
      if (done.fetch_add(1) + 1 == tasks) {
        std::lock_guard<std::mutex> lock(mutex);
        finished.notify_all();
      }
    }
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    finished.wait(lock, [&] { return done.load() == tasks; });
  }

  const int64_t tasks;
  const std::function<void(int64_t)>* task;
  std::atomic<int64_t> next{0}, done{0};
  std::mutex mutex;
  std::condition_variable finished;
};

}  // namespace

void limit_threads(int64_t most) { most_threads.store(most); }

int64_t threads_of(const xla::ffi::ThreadPool& pool) {
  const int64_t there = std::max<int64_t>(1, pool.num_threads()), most = most_threads.load();
  return most > 0 ? std::min(there, most) : there;
}

void parallel(xla::ffi::ThreadPool& pool, int64_t tasks, const std::function<void(int64_t)>& task) {
  const int64_t helpers = std::min(threads_of(pool), tasks) - 1;
  if (helpers <= 0) {
    for (int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  auto shared = std::make_shared<Shared>(tasks, task);
  for (int64_t i = 0; i < helpers; ++i) pool.Schedule([shared] { shared->work(); });
  shared->work();
  shared->wait();
}

}  // namespace hs
