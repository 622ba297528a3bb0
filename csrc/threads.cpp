#include "threads.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

namespace hs {
namespace {

std::atomic<int64_t> most_threads{0};

// Which part of the tasks a thread begins with: that of the processor it runs on, so that the next kernel of a program
// finds in the processor's cache what the last one left there. Caches of different processors are far apart.
int64_t preferred_part() {
#if defined(__linux__)
  return std::max(0, sched_getcpu());
#else
  static std::atomic<int64_t> threads{0};
  static thread_local const int64_t number = threads.fetch_add(1);
  return number;
#endif
}

// Tasks in as many parts as threads, neighbours together. A thread that is done with its part helps with the others.
class Shared {
 public:
  Shared(int64_t tasks, int64_t count, const std::function<void(int64_t)>& task)
      : tasks_(tasks), count_(count), parts_(new Part[size_t(count)]), task_(&task) {
    for (int64_t i = 0; i < count; ++i) parts_[i].next = i * tasks / count, parts_[i].end = (i + 1) * tasks / count;
  }

  // Takes tasks until none is left. `task_` is looked at only while one is held, and the caller of `parallel` stays
  // until all are done, so that a helper that comes late finds nothing and touches nothing.
  void work() {
    const int64_t own = claim(preferred_part());
    for (int64_t p = 0; p < count_; ++p) {
      Part& part = parts_[(own + p) % count_];
      for (int64_t i = part.next.fetch_add(1); i < part.end; i = part.next.fetch_add(1)) {
        try {
          (*task_)(i);
        } catch (...) {
          std::lock_guard<std::mutex> lock(mutex_);
          if (!failure_) failure_ = std::current_exception();
        }
        if (done_.fetch_add(1) + 1 == tasks_) {
          std::lock_guard<std::mutex> lock(mutex_);
          finished_.notify_all();
        }
      }
    }
  }

  // Raises what the first task raised that did.
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [&] { return done_.load() == tasks_; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct alignas(64) Part {
    std::atomic<int64_t> next;
    int64_t end;
    std::atomic<bool> claimed{false};
  };

  // The first part from this one on that no other thread began with.
  int64_t claim(int64_t from) {
    for (int64_t p = 0; p < count_; ++p)
      if (!parts_[(from + p) % count_].claimed.exchange(true)) return (from + p) % count_;
    return from % count_;
  }

  const int64_t tasks_, count_;
  const std::unique_ptr<Part[]> parts_;
  const std::function<void(int64_t)>* const task_;
  std::atomic<int64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
  std::exception_ptr failure_;
};

}  // namespace

void limit_threads(int64_t most) { most_threads.store(most); }

int64_t threads_of(const xla::ffi::ThreadPool& pool) {
  const int64_t there = std::max<int64_t>(1, pool.num_threads()), most = most_threads.load();
  return most > 0 ? std::min(there, most) : there;
}

void parallel(xla::ffi::ThreadPool& pool, int64_t tasks, const std::function<void(int64_t)>& task) {
  const int64_t threads = std::min(threads_of(pool), tasks);
  if (threads <= 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  auto shared = std::make_shared<Shared>(tasks, threads, task);
  for (int64_t i = 1; i < threads; ++i) pool.Schedule([shared] { shared->work(); });
  shared->work();
  shared->wait();
}

}  // namespace hs
